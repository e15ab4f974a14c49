package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Sanitised returns outcomes whose texts can be stored. If no outcome has a text, which is usual,
// it returns the same slice.
func Sanitised(outcomes []store.Outcome) []store.Outcome {
	clean := outcomes
	for i, o := range outcomes {
		if o.Error == nil && o.Report == nil && o.Receipts == nil && o.Endpoint == "" && o.Halt == "" {
			continue
		}
		if &clean[0] == &outcomes[0] {
			clean = slices.Clone(outcomes)
		}
		clean[i] = o.Sanitised()
	}
	return clean
}

// RecordRead records the outcomes at these indexes: it reads and locks their rows, applies the
// outcomes in their order, and saves the rows. halt is the statement that halts lanes; its rows
// for ExecAll are the service, the time, the id and the reason.
func RecordRead(ctx context.Context, t Tx, outcomes []store.Outcome, applied []store.Applied, at []int, halt string) error {
	read, did := make([]store.Outcome, len(at)), make([]store.Applied, len(at))
	for i, place := range at {
		read[i] = outcomes[place]
	}
	seqs, err := Seqs(ctx, t, len(read), func(i int) store.Ref { return read[i].Ref })
	if err != nil {
		return err
	}
	found, us, err := t.Load(ctx, Known(seqs))
	if err != nil {
		return err
	}
	if err := loadAgain(ctx, t, read, seqs, found); err != nil {
		return err
	}
	now := FromMicro(us)
	for i, o := range read {
		s := found[seqs[i]]
		if s == nil || s.Key() != o.Key {
			did[i] = store.Applied{Ref: o.Ref, Result: store.Gone}
			continue
		}
		o.Ref = s.Ref()
		s.Now, did[i] = s.Now.Apply(o, now)
	}
	if err := refuseBroken(ctx, t, read, did, found, now, halt); err != nil {
		return err
	}
	for i, place := range at {
		applied[place] = did[i]
	}
	return t.Save(ctx, slices.SortedFunc(maps.Values(found), func(a, b *Stored) int { return cmp.Compare(a.Seq, b.Seq) }))
}

// loadAgain loads batches that were removed and added again since the outcome's ref was read. Only
// a commit is recorded so, since it is a fact about the id, whichever row has the id.
func loadAgain(ctx context.Context, t Tx, outcomes []store.Outcome, seqs []int64, found map[int64]*Stored) error {
	var indexes []int
	for i, o := range outcomes {
		if s := found[seqs[i]]; o.Finding == store.IsCommitted && o.Row != 0 && (s == nil || s.Key() != o.Key) {
			indexes = append(indexes, i)
		}
	}
	if len(indexes) == 0 {
		return nil
	}
	anew, err := Seqs(ctx, t, len(indexes), func(i int) store.Ref { return store.Ref{Key: outcomes[indexes[i]].Key} })
	if err != nil {
		return err
	}
	var seqsToLoad []int64
	for i, seq := range anew {
		if seqs[indexes[i]] = seq; seq != 0 && found[seq] == nil {
			seqsToLoad = append(seqsToLoad, seq)
		}
	}
	if len(seqsToLoad) == 0 {
		return nil
	}
	more, _, err := t.Load(ctx, Known(seqsToLoad))
	maps.Copy(found, more)
	return err
}

// refuseBroken carries out halts, and the policies of lanes about batches that ended as Invalid or
// Rejected. The rows are locked and not saved yet. Other outcomes cause no statement here.
func refuseBroken(ctx context.Context, t Tx, outcomes []store.Outcome, applied []store.Applied, found map[int64]*Stored, now time.Time, halt string) error {
	var endedLanes []batch.ServiceID
	for i := range applied {
		if applied[i].Governs() {
			endedLanes = append(endedLanes, applied[i].Key.Service)
		}
	}
	if len(endedLanes) == 0 {
		return nil
	}
	control, err := readControls(ctx, t, sqlControlsOf, textArray(t, Distinct(endedLanes)))
	if err != nil {
		return err
	}
	var haltRows [][]any // the first such batch of each lane
	for i, a := range applied {
		if !a.Governs() {
			continue
		}
		service := a.Key.Service
		if a, control[service] = a.Enforce(control[service], outcomes[i].Policy, now); a.Halted &&
			!slices.ContainsFunc(haltRows, func(row []any) bool { return row[0] == string(service) }) {
			haltRows = append(haltRows, []any{string(service), ToMicro(now), string(a.Key.ID), a.Halt})
		}
		if s := found[a.Ref.Row]; s.Now.Version == a.Row.Version { // otherwise a later outcome has committed the batch
			s.Now.Quarantined = a.Row.Quarantined
		}
		applied[i] = a
	}
	for i := range applied { // a fenced outcome returns the present row
		if s := found[applied[i].Ref.Row]; s != nil && applied[i].Row.Version == s.Now.Version {
			applied[i].Row.Quarantined = s.Now.Quarantined
		}
	}
	_, err = t.ExecAll(ctx, halt, haltRows)
	return err
}
