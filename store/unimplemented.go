package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// ErrUnsupported says that a store lacks the ability which a call needs. The error that wraps it
// names the method and the ability. It wraps [errors.ErrUnsupported].
var ErrUnsupported = fmt.Errorf("store: %w", errors.ErrUnsupported)

// Unimplemented has the methods of a [Store] except those of [Delivery]. A store that embeds it
// needs no others than these: each method of an ability gives [ErrUnsupported], Abilities names
// none, Owns says false, and Upkeep does nothing.
type Unimplemented struct{}

// missingAbilityError returns the error of a method whose ability the store lacks.
func missingAbilityError(method string, a Abilities) error {
	return fmt.Errorf("%s: %w: the store lacks %s", method, ErrUnsupported, a)
}

// Abilities returns the empty set.
func (Unimplemented) Abilities() Abilities { return 0 }

// Owns returns false.
func (Unimplemented) Owns(Tx) bool { return false }

// Upkeep does nothing and returns no warnings.
func (Unimplemented) Upkeep(context.Context) ([]Warning, error) { return nil, nil }

// Finals gives [ErrUnsupported].
func (Unimplemented) Finals(context.Context, []batch.Key) ([]batch.Record, []batch.Key, error) {
	return nil, nil, missingAbilityError("Finals", CanReadFinals)
}

// List gives [ErrUnsupported].
func (Unimplemented) List(context.Context, ListQuery) ([]batch.Record, Cursor, error) {
	return nil, "", missingAbilityError("List", CanList)
}

// Counts gives [ErrUnsupported].
func (Unimplemented) Counts(context.Context, CountsQuery) ([]LaneCounts, error) {
	return nil, missingAbilityError("Counts", CanCount)
}

// Prune gives [ErrUnsupported].
func (Unimplemented) Prune(context.Context, PruneQuery) (Pruned, error) {
	return Pruned{}, missingAbilityError("Prune", CanPrune)
}

// KeepPrepared gives [ErrUnsupported].
func (Unimplemented) KeepPrepared(context.Context, []Prepared) ([]bool, error) {
	return nil, missingAbilityError("KeepPrepared", CanKeepPrepared)
}

// Witnesses gives [ErrUnsupported].
func (Unimplemented) Witnesses(context.Context, Ref, int) ([]batch.ID, error) {
	return nil, missingAbilityError("Witnesses", CanFindWitnesses)
}

// ReadTexts gives [ErrUnsupported].
func (Unimplemented) ReadTexts(context.Context, TextKind, ...string) ([]Text, time.Time, error) {
	return nil, time.Time{}, missingAbilityError("ReadTexts", CanKeepTexts)
}

// ListTexts gives [ErrUnsupported].
func (Unimplemented) ListTexts(context.Context, TextsQuery) ([]Text, time.Time, error) {
	return nil, time.Time{}, missingAbilityError("ListTexts", CanKeepTexts)
}

// SwapTexts gives [ErrUnsupported].
func (Unimplemented) SwapTexts(context.Context, ...Text) (bool, error) {
	return false, missingAbilityError("SwapTexts", CanKeepTexts)
}

// CountOpen gives [ErrUnsupported].
func (Unimplemented) CountOpen(context.Context) (Totals, error) {
	return Totals{}, missingAbilityError("CountOpen", CanCountOpen)
}

// Cancel gives [ErrUnsupported].
func (Unimplemented) Cancel(context.Context, batch.Record, batch.By) (batch.Record, error) {
	return batch.Record{}, missingAbilityError("Cancel", CanOperate)
}

// Requeue gives [ErrUnsupported].
func (Unimplemented) Requeue(context.Context, batch.Record, Requeue, batch.By) (batch.Record, error) {
	return batch.Record{}, missingAbilityError("Requeue", CanOperate)
}

// Decide gives [ErrUnsupported].
func (Unimplemented) Decide(context.Context, batch.Record, batch.Ruling, batch.By) (batch.Record, error) {
	return batch.Record{}, missingAbilityError("Decide", CanOperate)
}

// Withdraw gives [ErrUnsupported].
func (Unimplemented) Withdraw(context.Context, batch.Record, batch.By) (batch.Record, error) {
	return batch.Record{}, missingAbilityError("Withdraw", CanOperate)
}

// Acquit gives [ErrUnsupported].
func (Unimplemented) Acquit(context.Context, batch.Record, batch.By) (batch.Record, error) {
	return batch.Record{}, missingAbilityError("Acquit", CanOperate)
}

// Steer gives [ErrUnsupported].
func (Unimplemented) Steer(context.Context, Steering) (batch.Control, bool, error) {
	return batch.Control{}, false, missingAbilityError("Steer", CanControl)
}

// Control gives [ErrUnsupported].
func (Unimplemented) Control(context.Context, batch.Scope) (batch.Control, error) {
	return batch.Control{}, missingAbilityError("Control", CanControl)
}

// ControlsOf gives [ErrUnsupported].
func (Unimplemented) ControlsOf(context.Context, ControlsQuery) ([]batch.Control, error) {
	return nil, missingAbilityError("ControlsOf", CanControl)
}

// History gives [ErrUnsupported].
func (Unimplemented) History(context.Context, batch.Key) ([]batch.Act, error) {
	return nil, missingAbilityError("History", CanInspect)
}

// LaneHistory gives [ErrUnsupported].
func (Unimplemented) LaneHistory(context.Context, batch.Scope) ([]batch.Act, error) {
	return nil, missingAbilityError("LaneHistory", CanInspect)
}

// Attempts gives [ErrUnsupported].
func (Unimplemented) Attempts(context.Context, batch.Key) ([]batch.Report, error) {
	return nil, missingAbilityError("Attempts", CanInspect)
}

// Look gives [ErrUnsupported].
func (Unimplemented) Look(context.Context, batch.Key, int) (Look, error) {
	return Look{}, missingAbilityError("Look", CanInspect)
}

// Acts gives [ErrUnsupported].
func (Unimplemented) Acts(context.Context, ActsQuery) ([]batch.Act, Cursor, error) {
	return nil, "", missingAbilityError("Acts", CanListActs)
}

// Survey gives [ErrUnsupported].
func (Unimplemented) Survey(context.Context, SurveyQuery) (Survey, error) {
	return Survey{}, missingAbilityError("Survey", CanSurvey)
}

// Find gives [ErrUnsupported].
func (Unimplemented) Find(context.Context, FindQuery) ([]batch.Record, bool, error) {
	return nil, false, missingAbilityError("Find", CanFind)
}

// FindLanes gives [ErrUnsupported].
func (Unimplemented) FindLanes(context.Context, FindLanesQuery) ([]batch.ServiceID, error) {
	return nil, missingAbilityError("FindLanes", CanFind)
}

// LeaseStream gives [ErrUnsupported].
func (Unimplemented) LeaseStream(context.Context, string, string, time.Duration) (int64, bool, error) {
	return 0, false, missingAbilityError("LeaseStream", CanKeepStreams)
}

// AppendStream gives [ErrUnsupported].
func (Unimplemented) AppendStream(context.Context, batch.StreamEntry) (bool, error) {
	return false, missingAbilityError("AppendStream", CanKeepStreams)
}

// FindStream gives [ErrUnsupported].
func (Unimplemented) FindStream(context.Context, string, []string) (batch.StreamFound, error) {
	return batch.StreamFound{}, missingAbilityError("FindStream", CanKeepStreams)
}

// Tell gives [ErrUnsupported].
func (Unimplemented) Tell(context.Context, Hint) error { return missingAbilityError("Tell", CanHint) }

// Hear gives [ErrUnsupported].
func (Unimplemented) Hear(context.Context, Listener) error {
	return missingAbilityError("Hear", CanHint)
}
