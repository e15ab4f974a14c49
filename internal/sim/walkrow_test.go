package sim

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// minute is the unit of time of the walk. Every duration of its rules is a whole number of
// minutes, so that a time fits into a byte.
const minute = time.Minute

// Times in a packed row are minutes from now, on the database's clock. For the rules of the walk,
// all times beyond one of these bounds are alike.
const (
	minPackedMinutes = -walkStuckAfter - 1
	maxPackedMinutes = 2 * clockStep
	packedNoTime     = -128
	packedNever      = 127 // the end of a window that has no end
)

// walkNow is the present time in every state; the walk keeps all other times relative to it.
func walkNow() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// packedRow is a store.Row in a few bytes. Two rows with the same packedRow behave in the same
// way. It has no version: a state says for each copy of a row whether the row has changed since.
type packedRow struct {
	state, attempt, spent, failures                         int8
	claimExpires, notBefore, nextCheck, lastPost, settlesAt int8
	doubtAttempt, doubtSince, resendUntil, resends          int8
	refused, requeued, withdrawn, final                     bool
	claimTTL, movedAt, rollbacks, seenAttempt, kind         int8
	seenEndpoint                                            bool
	decision                                                int8
}

func clampToInt8(n, lo, hi int64) int8 { return int8(max(lo, min(n, hi))) }

func packTime(t time.Time) int8 {
	if t.IsZero() {
		return packedNoTime
	}
	d := t.Sub(walkNow())
	if d > 50*365*24*time.Hour {
		return packedNever
	}
	return clampToInt8(int64((d+1<<20*minute)/minute)-1<<20, minPackedMinutes, maxPackedMinutes) // rounded down
}

func unpackTime(p int8) time.Time {
	switch p {
	case packedNoTime:
		return time.Time{}
	case packedNever:
		return walkNow().Add(200 * 365 * 24 * time.Hour)
	}
	return walkNow().Add(time.Duration(p) * minute)
}

// A decision is none, the row's last error, or a text of the monitor.
const (
	noDecision = iota
	errorIsDecision
	monitorsDecision
)

func packRow(r store.Row) packedRow {
	p := packedRow{
		state: int8(slices.Index(batch.States(), r.State)), attempt: clampToInt8(int64(r.Attempt), 0, 100),
		spent: clampToInt8(int64(r.Spent), 0, 3), failures: clampToInt8(int64(r.Failures), 0, 3),
		claimExpires: packTime(r.ClaimExpires), notBefore: packTime(r.NotBefore), nextCheck: packTime(r.NextCheck),
		lastPost: packTime(r.LastPost), settlesAt: packTime(r.SettlesAt),
		doubtAttempt: clampToInt8(int64(r.DoubtAttempt), 0, 100), doubtSince: packTime(r.DoubtSince), resendUntil: packTime(r.ResendUntil),
		resends: clampToInt8(int64(r.Resends), 0, 3),
		refused: r.Refused, requeued: r.Requeued, withdrawn: r.Withdrawn, final: r.Final(),
		claimTTL: int8(r.ClaimTTL / minute), movedAt: packTime(r.MovedAt), rollbacks: clampToInt8(int64(r.Rollbacks), 0, 3),
		seenAttempt: clampToInt8(int64(r.SeenAttempt), 0, 100), seenEndpoint: r.SeenEndpoint != "",
	}
	if r.Error != nil {
		p.kind = 1 + int8(slices.Index(walkKinds(), r.Error.Kind))
	}
	switch {
	case r.Decision == "":
	case r.Error != nil && r.Decision == r.Error.Error():
		p.decision = errorIsDecision
	default:
		p.decision = monitorsDecision
	}
	return p.capAttempts()
}

// capAttempts subtracts from attempt numbers above four, so that a batch that is tried for ever
// returns to the same states.
func (p packedRow) capAttempts() packedRow {
	const most = 4
	if over := p.attempt - most; over > 0 {
		p.attempt = most
		if p.doubtAttempt > 0 {
			p.doubtAttempt = max(1, p.doubtAttempt-over)
		}
		p.seenAttempt = max(0, p.seenAttempt-over)
	}
	return p
}

// withoutUnread clears what no rule reads in the row's state.
func (p packedRow) withoutUnread() packedRow {
	switch s := batch.States()[p.state]; {
	case p.final:
		return packedRow{state: p.state, final: true, attempt: min(p.attempt, 1), kind: p.kind}
	case s.Claimable():
		p.nextCheck, p.claimExpires, p.settlesAt = packedNoTime, packedNoTime, packedNoTime
	}
	return p
}

const walkEndpoint = "node"

func (p packedRow) unpack() store.Row {
	r := store.Row{
		State: batch.States()[p.state], Version: 10, Attempt: int(p.attempt), Spent: int(p.spent), Failures: int(p.failures),
		ClaimExpires: unpackTime(p.claimExpires), NotBefore: unpackTime(p.notBefore), NextCheck: unpackTime(p.nextCheck),
		LastPost: unpackTime(p.lastPost), SettlesAt: unpackTime(p.settlesAt),
		DoubtAttempt: int(p.doubtAttempt), DoubtSince: unpackTime(p.doubtSince), ResendUntil: unpackTime(p.resendUntil),
		Resends: int(p.resends), Refused: p.refused, Requeued: p.requeued, Withdrawn: p.withdrawn,
		ClaimTTL: time.Duration(p.claimTTL) * minute, MovedAt: unpackTime(p.movedAt), Rollbacks: int(p.rollbacks),
		SeenAttempt: int(p.seenAttempt),
	}
	if p.final {
		r.FinalAt = walkNow()
	}
	if p.seenEndpoint {
		r.SeenEndpoint = walkEndpoint
	}
	if p.kind != 0 {
		r.Error = &batch.SubmissionError{Kind: walkKinds()[p.kind-1], Message: "m"}
	}
	switch p.decision {
	case errorIsDecision:
		r.Decision = r.Error.Error()
	case monitorsDecision:
		r.Decision = "a person is needed"
	}
	return r
}

func walkKinds() []batch.ErrorKind {
	return []batch.ErrorKind{
		batch.KindRejected, batch.KindBusy, batch.KindUnavailable, batch.KindMisconfigured, batch.KindNotYet, batch.KindDoubt,
		batch.KindFailed, batch.KindInvalid, batch.KindExhausted, batch.KindCancelled, batch.KindGivenUp,
	}
}

// shiftTimes changes the row's times when the database's clock goes on, or back, by so many
// minutes.
func (p packedRow) shiftTimes(minutes int8) packedRow {
	for _, t := range []*int8{&p.claimExpires, &p.notBefore, &p.nextCheck, &p.lastPost, &p.settlesAt, &p.doubtSince, &p.resendUntil, &p.movedAt} {
		if *t != packedNoTime && *t != packedNever {
			*t = clampToInt8(int64(*t)-int64(minutes), minPackedMinutes, maxPackedMinutes)
		}
	}
	return p
}

// TestPackedRow: each field of a row is kept in the packed row, or no rule of the walk reads it.
// The test fails for a new field of store.Row until one of the two is the case.
func TestPackedRow(t *testing.T) {
	without := map[string]string{
		"Version": "the walk keeps whether a copy is of the present version", "AskedAt": "only the order of questions depends on it",
		"Quarantined": "no policy", "ClaimedBy": "no rule reads it", "OrdersSettled": "no orders", "Receipts": "no rule reads them", "Prepared": "no bytes are prepared",
	}
	values := map[string]any{
		"State": batch.Pending, "FinalAt": walkNow(), "Error": &batch.SubmissionError{Kind: batch.KindBusy, Message: "m"},
	}
	for f := range reflect.TypeFor[store.Row]().Fields() {
		if without[f.Name] != "" {
			continue
		}
		r := store.NewRow()
		v := reflect.ValueOf(&r).Elem().FieldByName(f.Name)
		switch x := v.Addr().Interface().(type) {
		case *time.Time:
			*x = walkNow()
		case *time.Duration:
			*x = minute
		case *int:
			*x = 3
		case *bool:
			*x = true
		case *string:
			*x = walkEndpoint
		default:
			require.Contains(t, values, f.Name, "a field that the walk does not know")
			v.Set(reflect.ValueOf(values[f.Name]))
		}
		p := packRow(r)
		require.NotEqual(t, packRow(store.NewRow()), p, "%s is lost", f.Name)
		require.Equal(t, p, packRow(p.unpack()), "%s does not come back", f.Name)
	}
}
