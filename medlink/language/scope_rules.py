"""Rules of a language for clauses, headings and the scopes of cues: ``scopes.json``."""

from __future__ import annotations

import re
from functools import cached_property

from pydantic import Field

from medlink.language.languages import NOTHING, AnyPattern, Rules, language_data

_Words = frozenset[str]
_NONE: _Words = frozenset()


class ScopeRules(Rules):
    """The rules of one language; patterns match text in lower case."""

    joins: _Words = _NONE  # words that join the members of a list
    either: _Words = _NONE  # words that join alternatives: "or"
    grades: _Words = _NONE  # words that begin a present finding, even after a comma: "no rales, mild edema"
    abbreviated: _Words = _NONE  # words after which a dot does not end a sentence
    cut_to: int = 3  # after a word of at most this many letters, a dot before a small letter does not end a sentence
    # words of cues that a full stop cuts short, each with the beginnings of its full forms
    cut: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    opening: _Words = _NONE  # abbreviations in small letters that begin a sentence: "No FHx of HD. r/o PKU"
    ordinals: bool = False  # whether numbers have a dot as ordinals, so that this dot does not end a sentence
    aged: _Words = _NONE  # words before an age, after which a dot always ends a sentence: "Schlaganfall mit 60."
    numbered: _Words = _NONE  # words before a number after which a dot always ends a sentence: "Diabetes Typ 2."
    dated: _Words = _NONE  # words that may occur in the date of a heading
    without: _Words = _NONE  # words that negate only the next word in a list: "nausea without emesis, vertigo"
    curt: _Words = _NONE  # denials behind "but" that keep the person: "his father has gout but no asthma"
    lone: _Words = _NONE  # denials of the finding before them alone, not of its list: "cough, haemoptysis never"
    resumes: _Words = _NONE  # beginnings of cues behind a comma that end a negation: "Kein Asthma, Z. n. Pneumonie"
    passing: AnyPattern = NOTHING  # transient findings, such as an infarct
    lasts: AnyPattern = Field(NOTHING, alias="lasting")  # exceptions, which are lasting findings: "chronic sinusitis"
    operated: AnyPattern = NOTHING  # words for what is over: "apendicectomizado", "defervesced"
    since: _Words = _NONE  # words before the year in which a lasting finding began
    nothing: _Words = _NONE  # words that, in the line of a heading, mean that its section is empty
    nothing_known: _Words = _NONE  # words beside those of ``nothing``: "none known"
    answers: _Words = _NONE  # words after a question mark that answer the question: "Fever? no"
    affirmed: _Words = _NONE  # answers that affirm; those that deny are also in ``nothing``
    # whole words that may stand between a mention and the negation after it: "fever currently none"
    adverb: AnyPattern = Field(NOTHING, alias="adverbs")
    # words of a change that follow their subject: "thickened", "vermindert"
    predicate: re.Pattern[str] = Field(NOTHING, alias="predicates")
    between: _Words = _NONE  # words that may stand between subject and predicate: "was", "not", "visibly"
    measured: _Words = _NONE  # words that may stand there only before a number: "mit 15 mm verdickt"
    subject: re.Pattern[str] = Field(NOTHING, alias="subjects")  # subject of a state, with its capitals: "Lippen"
    # last word of such a statement, which ends a list of denials: "lips cyanotic"
    state: re.Pattern[str] = Field(NOTHING, alias="states")
    # words after a member of a list of denials that do not end it: "kein Infiltrat, Erguss nachweisbar"
    evident: _Words = _NONE
    results: _Words = _NONE  # results of a test; they do not apply to findings before it: "cough, troponin negative"
    lists: _Words = _NONE  # last words of cues before a list of any things: "risks include infection, bleeding"
    found: _Words = _NONE  # other results, whose finding is no member of a list of these: "RF positiv, ANA negativ"
    refuses: _Words = _NONE  # verbs of denial; all objects behind such a verb are denied: "denies nausea, vomiting"
    head_first: bool = False  # whether an adjective follows its noun
    articles: _Words = _NONE  # words that may stand before a drug, an act or a finding
    doses: _Words = _NONE  # units, routes and times of a dose: "Ramipril 5 mg p.o. abgesetzt"
    # words before an attribute of an act or a drug: "surgery for hernia", "wegen Husten abgesetzt"
    prepositions: _Words = _NONE
    circumstances: _Words = _NONE  # those of ``prepositions`` that name a circumstance: "no bleeding on warfarin"
    # words that are such prepositions if they do not begin a clause: "Resektion der Metastase"
    genitives: _Words = _NONE
    therapies: _Words = _NONE  # words whose attribute is the drug itself: "Therapie mit Metformin"
    # words of absence that form a finding together with the absent function: "sweating absent"
    deficits: _Words = _NONE
    # words that begin the subject of a new clause behind a denial: "no fever, and the cough persists"
    definite: _Words = _NONE
    finite: _Words = _NONE  # verbs of such a clause
    purposes: _Words = _NONE  # prepositions before a finding for which something is lacking: "no cause for the anemia"
    possessives: _Words = _NONE  # words between the two, if the finding is present
    treated: _Words = _NONE  # words beside a drug by which a finding of the past was treated
    reports: _Words = _NONE  # verbs of an examination: "neither CT nor MRI showed"
    begun: _Words = _NONE  # words beside which a drug of earlier times is still taken: "started in 2019"
    reasons: _Words = _NONE  # prepositions before the reason of an act
    # prepositions before a procedure that belongs to the words before it: "stroke with thrombolysis"
    accompanied: _Words = _NONE
    # operations that remove their reason: "hysterectomy for fibroids"
    removes: AnyPattern = Field(NOTHING, alias="removing")
    # whole words which tell that a procedure in their clause is still to come: "tomorrow", "offered"
    expects: AnyPattern = Field(NOTHING, alias="expected")
    conditions: _Words = _NONE  # words before a condition of a future procedure: "if pain persists, MRI"
    done: _Words = _NONE  # words which tell that a procedure is done: "CT showed"
    followed: _Words = _NONE  # words before a procedure that was done before something else: "after surgery"
    patients: _Words = _NONE  # head of the column of the patient in a table with columns for persons
    visits: _Words = _NONE  # heads of columns for visits, each with a number or one of these words
    # word and abbreviation, with their capitals, that end a sentence before a capital: "Ödeme bds. Husten"
    closing: re.Pattern[str] = Field(NOTHING)
    grounds: _Words = _NONE  # words right after what a plan is for that begin its reason: "to exclude PE given"
    given: _Words = _NONE  # words beside the reason of a drug that was given: "bei Fieber wurde Paracetamol gegeben"
    # symptoms and signs, which are there if their cause is sought: "investigate anemia"
    observed: AnyPattern = NOTHING
    continued: _Words = _NONE  # words in a plan which tell that a procedure goes on: "continue"

    @cached_property
    def tells_past(self) -> re.Pattern[str]:
        """Pattern of a whole mention for ``operated``."""
        return re.compile(rf"\b(?:{self.operated.pattern})\b")

    @cached_property
    def passes(self) -> re.Pattern[str]:
        """Pattern of transient findings: ``passing`` except ``lasting``."""
        return re.compile(rf"(?!.*(?:{self.lasts.pattern}))(?=.*(?:{self.passing.pattern}))")


def scopes(language: str) -> ScopeRules:
    return language_data(language).read("scopes", ScopeRules)
