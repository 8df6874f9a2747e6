"""Link the notes of all requests in one thread, because threads share one interpreter.

Notes that wait at the same time are linked together: a mention in several notes is ranked once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any, TypeVar

from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note

_BATCH = 32  # notes linked together
_CHARACTERS = 100_000  # of them, so that a short note does not wait for many long ones
_T = TypeVar("_T")
Render = Callable[[NotePipeline, LinkedNote], Any]


@dataclass(eq=False, slots=True)
class _Job:
    pipeline: NotePipeline
    notes: Sequence[Note]
    render: Render
    future: Future[list[Any]]
    next: int = 0
    done: list[Any] = field(default_factory=list)
    is_alone: bool = False  # linked without the notes of other jobs, because a batch with it failed


class LinkQueue:
    """A thread that links notes; jobs take turns, so that a short job does not wait until a long job ends."""

    def __init__(self) -> None:
        self._jobs, self._calls = deque[_Job](), deque[tuple[Future[Any], Callable[[], Any]]]()
        self._changed, self._is_closed = Condition(), False
        self._thread = Thread(target=self._run, name="link", daemon=True)
        self._thread.start()

    def submit(self, pipeline: NotePipeline, notes: Sequence[Note], render: Render) -> Future[list[Any]]:
        """Link notes, and return the result of ``render`` for each; cancelling the future drops waiting notes."""
        future = Future[list[Any]]()
        with self._changed:
            self._jobs.append(_Job(pipeline, notes, render, future))
            self._changed.notify()
        return future

    def call(self, function: Callable[[], _T]) -> Future[_T]:
        """Call a function between two batches of notes."""
        future = Future[_T]()
        with self._changed:
            self._calls.append((future, function))
            self._changed.notify()
        return future

    def close(self) -> None:
        """End the thread after the notes in progress are linked."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._calls or self._is_closed)
                if self._is_closed:
                    return
                call = self._calls.popleft() if self._calls else None
                batch = list(self._take())
            if call is not None:
                _call(*call)
            if batch:
                self._link(batch)
            del call, batch  # a replaced bundle must not stay open until the next request

    def _take(self) -> Iterator[tuple[_Job, Note]]:
        """Yield the next notes of jobs that share a pipeline, one from each job in turn."""
        jobs = [job for job in self._jobs if not job.future.done()]
        same, others = deque(jobs[:1]), list[_Job]()
        for job in jobs[1:]:
            joins = job.pipeline is jobs[0].pipeline and not (job.is_alone or jobs[0].is_alone)
            (same if joins else others).append(job)
        number = characters = 0
        while same and number < _BATCH and (not number or characters < _CHARACTERS):
            job = same.popleft()
            note = job.notes[job.next]
            job.next, number, characters = job.next + 1, number + 1, characters + len(note.text)
            if job.next < len(job.notes):
                same.append(job)
            yield job, note
        self._jobs = deque([*others, *same])

    def _link(self, batch: Sequence[tuple[_Job, Note]]) -> None:
        try:
            pipeline = batch[0][0].pipeline
            for (job, _), linked in zip(batch, pipeline.link([note for _, note in batch]), strict=True):
                job.done.append(job.render(pipeline, linked))
                if len(job.done) == len(job.notes) and job.future.set_running_or_notify_cancel():
                    job.future.set_result(job.done)
        except Exception as error:
            jobs = [job for job in dict.fromkeys(job for job, _ in batch) if not job.future.done()]
            if len(jobs) == 1:
                if jobs[0].future.set_running_or_notify_cancel():
                    jobs[0].future.set_exception(error)
                return
            with self._changed:  # link each job alone, from its beginning: another job may have made the batch fail
                for job in jobs:
                    job.next, job.is_alone, job.done = 0, True, []
                    if job not in self._jobs:
                        self._jobs.append(job)


def _call(future: Future[Any], function: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():  # false if the request gave up
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
