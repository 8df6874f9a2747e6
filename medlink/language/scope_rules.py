"""Rules of a language for clauses, headings and the scopes of cues: ``scopes.json``."""

from __future__ import annotations

import re
from functools import cached_property

from medlink.language.languages import Rules, any_of, language_data


class ScopeRules(Rules):
    """The rules of one language.

    Attributes:
        joins: words that join the members of a list.
        either: words that join alternatives, such as *or*.
        grades: words that begin a present finding, even after a comma ("no rales, mild edema").
        abbreviated: words after which a dot does not end a sentence.
        cut_to: after a word of at most this many letters, a dot before a small letter does not end a sentence.
        ordinals: whether numbers have a dot as ordinals, so that this dot does not end a sentence.
        aged: words before an age, after which a dot ends a sentence even before a noun ("Schlaganfall mit 60.").
        dated: words that may occur in the date of a heading.
        without: words that negate only the next word in a list ("nausea without emesis, vertigo").
        passing: patterns of transient findings, such as an infarct.
        resumes: beginnings of cues behind a comma that end a negation ("Kein Asthma, Z. n. Pneumonie").
        lasting: patterns of exceptions, which are lasting findings ("chronic sinusitis").
        operated: patterns of words for a patient after an operation ("apendicectomizado").
        since: words before the year in which a lasting finding began.
        nothing: words that, in the line of a heading, mean that its section is empty.
        nothing_known: words beside those of ``nothing`` ("none known").
        answers: words after a question mark that answer the question ("Fever? no").
        adverbs: patterns of words that may stand between a mention and the negation after it ("fever currently none").
        predicates: pattern of the words of a change that follow their subject ("thickened", "vermindert").
        between: words that may stand between subject and predicate ("was", "not", "visibly").
        measured: words that may stand there only before a number ("mit 15 mm verdickt").
        subjects: pattern of the subject of a state, with its capitals ("Lippen").
        states: pattern of the last word of such a statement, which ends a list of denials ("lips cyanotic").
        evident: words after a member of a list of denials that do not end it ("kein Infiltrat, Erguss nachweisbar").
        results: words for the result of a test, which does not apply to findings before the test ("cough, troponin
            negative").
        head_first: whether an adjective follows its noun.
        articles: words that may stand before a drug, an act or a finding.
        doses: units, routes and times of a dose ("Ramipril 5 mg p.o. abgesetzt").
        prepositions: words before an attribute of an act or a drug ("surgery for hernia", "wegen Husten abgesetzt").
        circumstances: those of ``prepositions`` that name a circumstance ("no bleeding on warfarin").
        genitives: words that are such prepositions if they do not begin a clause ("Resektion der Metastase").
        therapies: words whose attribute is the drug itself ("Therapie mit Metformin").
        definite: words that begin the subject of a new clause behind a denial ("no fever, and the cough persists").
        purposes: prepositions before a finding for which something is lacking ("no cause for the anemia").
        possessives: words between the two, of a finding that is there.
        treated: words beside a drug by which a finding of the past was treated.
        finite: verbs of such a clause.
        reports: verbs of an examination ("neither CT nor MRI showed").
        begun: words beside which a drug of earlier times is still taken ("started in 2019").
        reasons: prepositions before the reason of an act.
        accompanied: prepositions before a procedure that belongs to what is before ("stroke with thrombolysis").
        removing: patterns of operations that remove their reason ("hysterectomy for fibroids").
        expected: patterns of words that tell that a procedure in their clause is still to come ("tomorrow", "offered").
        conditions: words before a condition, behind which a procedure is still to come ("if pain persists, MRI").
        done: words that tell that a procedure is done ("CT showed").
        followed: words before a procedure that was done before something else ("after surgery").
        continued: words that tell in a plan that a procedure goes on ("continue").
        deficits: words of absence that form a finding together with the absent function ("sweating absent").
    """

    joins: frozenset[str] = frozenset()
    either: frozenset[str] = frozenset()
    grades: frozenset[str] = frozenset()
    abbreviated: frozenset[str] = frozenset()
    cut_to: int = 3
    ordinals: bool = False
    aged: frozenset[str] = frozenset()
    resumes: frozenset[str] = frozenset()
    dated: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    passing: tuple[str, ...] = ()
    lasting: tuple[str, ...] = ()
    operated: tuple[str, ...] = ()
    since: frozenset[str] = frozenset()
    nothing: frozenset[str] = frozenset()
    nothing_known: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()
    adverbs: tuple[str, ...] = ()
    articles: frozenset[str] = frozenset()
    doses: frozenset[str] = frozenset()
    prepositions: frozenset[str] = frozenset()
    circumstances: frozenset[str] = frozenset()
    genitives: frozenset[str] = frozenset()
    therapies: frozenset[str] = frozenset()
    deficits: frozenset[str] = frozenset()
    definite: frozenset[str] = frozenset()
    purposes: frozenset[str] = frozenset()
    possessives: frozenset[str] = frozenset()
    treated: frozenset[str] = frozenset()
    finite: frozenset[str] = frozenset()
    reports: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    accompanied: frozenset[str] = frozenset()
    removing: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    conditions: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    followed: frozenset[str] = frozenset()
    continued: frozenset[str] = frozenset()
    predicates: str = "(?!)"
    subjects: str = "(?!)"
    states: str = "(?!)"
    evident: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    head_first: bool = False
    between: frozenset[str] = frozenset()
    measured: frozenset[str] = frozenset()

    @cached_property
    def predicate(self) -> re.Pattern[str]:
        return re.compile(self.predicates)

    @cached_property
    def subject(self) -> re.Pattern[str]:
        return re.compile(self.subjects)

    @cached_property
    def state(self) -> re.Pattern[str]:
        return re.compile(self.states)

    @cached_property
    def adverb(self) -> re.Pattern[str]:
        """One pattern of whole words for ``adverbs``, in lower case."""
        return any_of(map(re.compile, self.adverbs))

    @cached_property
    def tells_past(self) -> re.Pattern[str]:
        """One pattern of a whole mention for ``operated``, in lower case."""
        return re.compile(rf"\b(?:{any_of(map(re.compile, self.operated)).pattern})\b")

    @cached_property
    def removes(self) -> re.Pattern[str]:
        """One pattern for ``removing``, in lower case."""
        return any_of(map(re.compile, self.removing))

    @cached_property
    def expects(self) -> re.Pattern[str]:
        """One pattern of a whole word for ``expected``, in lower case."""
        return any_of(map(re.compile, self.expected))

    @cached_property
    def lasts(self) -> re.Pattern[str]:
        """One pattern for ``lasting``, in lower case."""
        return any_of(map(re.compile, self.lasting))

    @cached_property
    def passes(self) -> re.Pattern[str]:
        """One pattern for transient findings, in lower case: ``passing`` except ``lasting``."""
        passing, lasting = (any_of(map(re.compile, patterns)).pattern for patterns in (self.passing, self.lasting))
        return re.compile(rf"(?!.*(?:{lasting}))(?=.*(?:{passing}))")


def scopes(language: str) -> ScopeRules:
    """Return the rules of a language for the ends of clauses and headings."""
    return language_data(language).read("scopes", ScopeRules)
