package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Lanes is [store.Engine].Lanes.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) (lanes []batch.ServiceID, err error) {
	err = s.read(ctx, "list lanes", func(ctx context.Context, t *session) error {
		if q.Start {
			return t.sel(ctx, &lanes, sqlLanesFirst, q.Limit)
		}
		return t.sel(ctx, &lanes, sqlLanesAfter, string(q.After), q.Limit)
	})
	return lanes, err
}

// Claim is [store.Engine].Claim. SQLite locks the whole database while it chooses,
// so no lane is ever named in Locked.
func (s *Store) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	const op = "claim"
	var claimed store.Claimed
	err := s.write(ctx, op, func(ctx context.Context, t *session) (err error) {
		claimed, err = t.claim(ctx, q, choose)
		return err
	})
	if err != nil {
		return store.Claimed{}, err
	}
	return claimed, nil
}

func (t *session) claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (out store.Claimed, err error) {
	now, err := t.now(ctx)
	if err != nil {
		return out, err
	}
	left := q.Limit
	seen := make(map[batch.ServiceID]bool, len(q.Lanes))
	for _, service := range q.Lanes {
		if seen[service] {
			continue
		}
		seen[service] = true
		if left <= 0 {
			out.Left = append(out.Left, service)
			continue
		}
		rows, receipts, err := t.lane(ctx, service, max(1, q.Window))
		if err != nil {
			return out, fmt.Errorf("lane %q: %w", service, err)
		}
		if len(rows) == 0 {
			continue
		}
		plan := store.PlanLane(service, rows, now, q, left, choose)
		for _, r := range plan.Changed {
			// Both a claim and a return raise the version by one.
			n, err := t.exec(ctx, sqlUpdateOpen, append(openArgs(r.Row, receipts[r.Ref.Row]), r.Ref.Row, r.Row.Version-1)...)
			if err == nil && n != 1 {
				err = fmt.Errorf("%d rows written, want 1", n)
			}
			if err != nil {
				return out, fmt.Errorf("batch %s: %w", r.Key, err)
			}
		}
		left -= plan.Claims
		out.Runs = append(out.Runs, plan.Runs...)
		if plan.More {
			out.Left = append(out.Left, service)
		}
		out.NextReady = sooner(out.NextReady, plan.NextReady)
	}
	return out, nil
}

// sooner is the shorter of two times to wait; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// lane reads what a claim sees of a lane, and how many receipts each row has.
func (t *session) lane(ctx context.Context, service batch.ServiceID, window int) ([]store.LaneRow, map[int64]int, error) {
	var attempted, waiting []claimable
	if err := t.sel(ctx, &attempted, sqlAttempted, string(service)); err != nil {
		return nil, nil, err
	}
	if err := t.sel(ctx, &waiting, sqlWaiting, string(service), window); err != nil {
		return nil, nil, err
	}
	rows := make([]store.LaneRow, 0, len(attempted)+len(waiting))
	var receipts map[int64]int
	for _, part := range [...][]claimable{attempted, waiting} {
		for i := range part {
			c := &part[i]
			f, err := decodeFootprint(c.Footprint)
			if err != nil {
				return nil, nil, fmt.Errorf("batch %s: %w", c.key(), err)
			}
			rows = append(rows, store.LaneRow{Ref: c.ref(), Row: c.row(), Budget: c.budget(), Footprint: f})
			if c.rowCols.Receipts > 0 {
				if receipts == nil {
					receipts = map[int64]int{}
				}
				receipts[c.Seq] = c.rowCols.Receipts
			}
		}
	}
	return rows, receipts, nil
}

type payloadCols struct {
	Seq             int64  `db:"seq"`
	HeaderSignature string `db:"header_signature"`
	ServiceID       string `db:"service_id"`
	SerializedBatch []byte `db:"serialized_batch"`
}

func (p payloadCols) key() batch.Key {
	return batch.Key{Service: batch.ServiceID(p.ServiceID), ID: batch.ID(p.HeaderSignature)}
}

// Payloads is [store.Engine].Payloads.
func (s *Store) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	payloads := make([][]byte, len(refs))
	if len(refs) == 0 {
		return payloads, nil
	}
	err := s.read(ctx, "load payloads", func(ctx context.Context, t *session) error {
		seqs := make([]int64, len(refs))
		for i, r := range refs {
			if seqs[i] = r.Row; r.Row != 0 {
				continue
			}
			if err := t.get(ctx, &seqs[i], sqlSeqByID, string(r.Key.ID)); err != nil && !noRows(err) {
				return err
			}
		}
		var rows []payloadCols
		if err := t.sel(ctx, &rows, sqlPayloads, jsonInts(seqs)); err != nil {
			return err
		}
		// A number may have been used again since: the key has to fit, too. And one that
		// is asked for twice is answered twice, with bytes of its own each time.
		bySeq := make(map[int64][]payloadCols, len(rows))
		for _, p := range rows {
			bySeq[p.Seq] = append(bySeq[p.Seq], p)
		}
		for i, seq := range seqs {
			if left := bySeq[seq]; len(left) > 0 && left[0].key() == refs[i].Key {
				payloads[i], bySeq[seq] = left[0].SerializedBatch, left[1:]
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return payloads, nil
}
