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
	old, new             *mark // nil if there is none
	oldTables, newTables bool  // whether the store's tables are in the schema
	control              batch.Control
	move                 string // id of the move in which this process takes part; "" if none yet
}

// decide returns the next step. It is the only place that knows the order of the steps.
func decide(f facts) (Step, error) {
	if err := f.fit(); err != nil {
		return "", err
	}
	if f.old == nil {
		return StepAnnounce, nil
	}
	at := state("")
	if f.new != nil {
		at = f.new.State
	}
	switch f.old.State {
	case announced:
		switch {
		case f.new == nil:
			return StepPrepare, nil
		case f.old.Place == "":
			return StepBind, nil
		case at == announced:
			return StepTables, nil
		case at == ready && f.control.PausedAt.IsZero():
			return StepPause, nil
		case at == ready:
			return StepRename, nil
		}
	case moved:
		switch at {
		case ready:
			return StepCopy, nil
		case copied:
			return StepCompare, nil
		case compared, arrived: // arrived occurs if a failover of the old server has undone the step that gave it up
			return StepLetGo, nil
		}
	case gone:
		switch {
		case at == ready: // a failover of the new server has undone the copy, and the old server still has the rows
			return StepCopy, nil
		case at == copied:
			return StepCompare, nil
		case at == compared:
			return StepPlace, nil
		case at == arrived && ours(f.control, f.old.Move):
			return StepResume, nil
		case at == arrived:
			return StepFinish, nil
		}
	case done:
		if f.new != nil {
			return StepTidy, nil
		}
		return StepDone, nil
	case returning:
		return StepGoBack, nil
	}
	return "", refuse("the old database says %q and the new one %q, which is no state of a move", f.old.State, at)
}

// fit returns an error if the marks do not belong together.
func (f facts) fit() error {
	switch {
	case f.old == nil && f.move != "":
		return refuse("the move %s was taken back meanwhile", f.move)
	case f.old == nil && !f.oldTables:
		return refuse("the old database has no tables of a store in the schema")
	case f.old == nil && f.new != nil && f.new.Role == roleOld:
		return refuse("the schema was moved away from the new database before: drop its table %q there, once nobody uses that data source name for it", movedName)
	case f.old == nil && f.new != nil:
		return refuse("the move %s brings a schema to the new database already; if it was taken back without this database, drop the table %q and the schema NAME_arriving there", f.new.Move, movedName)
	case f.old == nil:
		return nil
	case f.old.Role == roleNew:
		return refuse("the move %s, which brought the schema to the old database, is not finished, or both data source names lead to one database", f.old.Move)
	case f.move != "" && f.move != f.old.Move:
		return refuse("the move %s was taken back meanwhile, and %s was begun", f.move, f.old.Move)
	case f.new == nil && (f.old.State == done || f.old.State == returning || f.old.Place == ""):
		return nil
	case f.new == nil:
		return refuse("the move %s goes to another database than this, or this one has lost its mark", f.old.Move)
	case f.new.Role != roleNew:
		return refuse("the new data source name leads to no new database of the move %s: to the old one again, or to one that a schema was moved away from", f.old.Move)
	case f.new.Move != f.old.Move, f.old.Place != "" && f.new.Place != f.old.Place:
		return refuse("the move %s goes to another database, and this one has a part in the move %s", f.old.Move, f.new.Move)
	}
	return nil
}
