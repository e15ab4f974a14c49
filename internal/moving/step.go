package moving

import (
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// Step is the next step of a move.
type Step string

// Steps, in their order.
const (
	StepAnnounce Step = "announce"
	StepPrepare  Step = "prepare"
	StepBind     Step = "bind"
	StepTables   Step = "tables"
	StepPause    Step = "pause"
	StepRename   Step = "rename"
	StepCopy     Step = "copy"
	StepCompare  Step = "compare"
	StepLetGo    Step = "let go"
	StepPlace    Step = "place"
	StepResume   Step = "resume"
	StepFinish   Step = "finish"
	StepTidy     Step = "tidy"
	StepDone     Step = "done"
	// StepGoBack is the next step of a move that is being taken back: only Back goes on.
	StepGoBack Step = "go back"
)

// steps has what each step does, in the order of the steps.
var steps = []struct {
	Step Step
	Does string
}{
	{StepAnnounce, "look at both databases, and mark the old one"},
	{StepPrepare, "mark the new database: nobody may make or use the schema there"},
	{StepBind, "write down at the old one which database that is"},
	{StepTables, "make the tables in the new database"},
	{StepPause, "pause everything: lanes stand from now on"},
	{StepRename, "wait for claims and open transactions, and take the tables away from the old server's users"},
	{StepCopy, "copy all rows in one snapshot"},
	{StepCompare, "compare both: rows and a hash of each table, and the sequences"},
	{StepLetGo, "give up the old server: from now on there is no way back"},
	{StepPlace, "put the tables of the new server into place"},
	{StepResume, "resume everything on the new server"},
	{StepFinish, "write down at the old server that the new one serves"},
	{StepTidy, "remove the mark of the new database"},
}

// Does returns what a step does, in words.
func (s Step) Does() string {
	for _, x := range steps {
		if x.Step == s {
			return x.Does
		}
	}
	return ""
}

// ErrRefused means that a move cannot begin or continue. Nothing was done.
var ErrRefused = errors.New("the schema cannot be moved so")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// facts are what the two databases show.
type facts struct {
	oldMark, newMark     *mark // nil if there is none
	oldTables, newTables bool  // whether the store's tables are in the schema
	control              batch.Control
	moveID               string // id of the move in which this process takes part; "" if none yet
}

// decide returns the next step. It is the only place that knows the order of the steps.
func decide(f facts) (Step, error) {
	if err := f.checkMarks(); err != nil {
		return "", err
	}
	if f.oldMark == nil {
		return StepAnnounce, nil
	}
	at := markState("")
	if f.newMark != nil {
		at = f.newMark.State
	}
	switch f.oldMark.State {
	case stateAnnounced:
		switch {
		case f.newMark == nil:
			return StepPrepare, nil
		case f.oldMark.PlaceID == "":
			return StepBind, nil
		case at == stateAnnounced:
			return StepTables, nil
		case at == stateTablesMade && f.control.PausedAt.IsZero():
			return StepPause, nil
		case at == stateTablesMade:
			return StepRename, nil
		}
	case stateTablesMoved:
		switch at {
		case stateTablesMade:
			return StepCopy, nil
		case stateRowsCopied:
			return StepCompare, nil
		case stateRowsCompared, stateTablesPlaced: // arrived occurs if a failover of the old server has undone the step that gave it up
			return StepLetGo, nil
		}
	case stateGivenUp:
		switch {
		case at == stateTablesMade: // a failover of the new server has undone the copy, and the old server still has the rows
			return StepCopy, nil
		case at == stateRowsCopied:
			return StepCompare, nil
		case at == stateRowsCompared:
			return StepPlace, nil
		case at == stateTablesPlaced && isMovesPause(f.control, f.oldMark.MoveID):
			return StepResume, nil
		case at == stateTablesPlaced:
			return StepFinish, nil
		}
	case stateDone:
		if f.newMark != nil {
			return StepTidy, nil
		}
		return StepDone, nil
	case stateTakenBack:
		return StepGoBack, nil
	}
	return "", refuse("the old database says %q and the new one %q, which is no state of a move", f.oldMark.State, at)
}

// checkMarks returns an error if the marks do not belong together.
func (f facts) checkMarks() error {
	switch {
	case f.oldMark == nil && f.moveID != "":
		return refuse("the move %s was taken back meanwhile", f.moveID)
	case f.oldMark == nil && !f.oldTables:
		return refuse("the old database has no tables of a store in the schema")
	case f.oldMark == nil && f.newMark != nil && f.newMark.Role == roleOld:
		return refuse("the schema was moved away from the new database before: drop its table %q there, once nobody uses that data source name for it", markTableName)
	case f.oldMark == nil && f.newMark != nil:
		return refuse("the move %s brings a schema to the new database already; if it was taken back without this database, drop the table %q and the schema NAME_arriving there", f.newMark.MoveID, markTableName)
	case f.oldMark == nil:
		return nil
	case f.oldMark.Role == roleNew:
		return refuse("the move %s, which brought the schema to the old database, is not finished, or both data source names lead to one database", f.oldMark.MoveID)
	case f.moveID != "" && f.moveID != f.oldMark.MoveID:
		return refuse("the move %s was taken back meanwhile, and %s was begun", f.moveID, f.oldMark.MoveID)
	case f.newMark == nil && (f.oldMark.State == stateDone || f.oldMark.State == stateTakenBack || f.oldMark.PlaceID == ""):
		return nil
	case f.newMark == nil:
		return refuse("the move %s goes to another database than this, or this one has lost its mark", f.oldMark.MoveID)
	case f.newMark.Role != roleNew:
		return refuse("the new data source name leads to no new database of the move %s: to the old one again, or to one that a schema was moved away from", f.oldMark.MoveID)
	case f.newMark.MoveID != f.oldMark.MoveID, f.oldMark.PlaceID != "" && f.newMark.PlaceID != f.oldMark.PlaceID:
		return refuse("the move %s goes to another database, and this one has a part in the move %s", f.oldMark.MoveID, f.newMark.MoveID)
	}
	return nil
}
