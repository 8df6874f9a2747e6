// The page of linked notes.

showNotes(takeData());
