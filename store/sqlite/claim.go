package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Lanes is [store.Store].Lanes.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) (lanes []batch.ServiceID, err error) {
	err = s.read(ctx, "list lanes", func(ctx context.Context, t *session) error {
		if q.Start {
			return t.sel(ctx, &lanes, sqlLanesFirst, q.Limit)
		}
		return t.sel(ctx, &lanes, sqlLanesAfter, string(q.After), q.Limit)
	})
	return lanes, err
}

// Claim is [store.Store].Claim. SQLite locks the whole database while it chooses,
// so no lane is ever named in Locked.
func (s *Store) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	const op = "claim"
	var claimed store.Claimed
	err := s.write(ctx, op, func(ctx context.Context, t *session) (err error) {
		if claimed, err = t.claim(ctx, q, choose); err == nil {
			err = t.claimedPayloads(ctx, &claimed)
		}
		return err
	})
	if err != nil && !sqlstore.Maybe(err) {
		return store.Claimed{}, err
	}
	return claimed, err
}

func (t *session) claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (out store.Claimed, err error) {
	now, err := t.now(ctx)
	if err != nil {
		return out, err
	}
	q.Window = max(1, q.Window)
	out.Payloads = map[int64][]byte{}
	lanes, left := sqlstore.Distinct(q.Lanes), q.Limit
	for len(lanes) > 0 && left > 0 {
		// Lanes are looked at together, but not many more than the limit lets through.
		some := lanes[:min(len(lanes), max(left/q.Window, 8), 500)]
		lanes = lanes[len(some):]
		windows, err := t.attempted(ctx, sqlAttempted, true, some, func(s batch.ServiceID, attempted []store.LaneRow) int {
			return store.Wanted(s, attempted, now, q)
		})
		if err != nil {
			return out, err
		}
		// Waiting rows are read only of lanes that the limit lets through; where a round finds
		// fewer rows than wanted, the next round reads a few more lanes.
		for budget := left; len(windows) > 0 && left > 0; budget *= 4 {
			n := reach(windows, max(left, budget))
			if err := t.waiting(ctx, true, windows[:n]); err != nil {
				return out, err
			}
			for ; n > 0 && left > 0; n-- {
				w := windows[0]
				windows = windows[1:]
				if len(w.rows) == 0 {
					continue
				}
				lane := laneRows(w.rows)
				plan := store.PlanLane(w.service, lane, now, q, left, choose)
				if err := t.saveClaims(ctx, w.rows, lane, out.Payloads); err != nil {
					return out, fmt.Errorf("lane %q: %w", w.service, err)
				}
				left -= plan.Claims
				out.Runs = append(out.Runs, plan.Runs...)
				if plan.More {
					out.Left = append(out.Left, w.service)
				}
				out.NextReady = sqlstore.Sooner(out.NextReady, plan.NextReady)
			}
		}
		for _, w := range windows {
			out.Left = append(out.Left, w.service)
		}
	}
	out.Left = append(out.Left, lanes...)
	return out, nil
}

// reach is how many of the windows want so many rows together, at least one.
func reach(windows []window, rows int) int {
	for i, w := range windows {
		if rows <= 0 && i > 0 {
			return i
		}
		rows -= w.want
	}
	return len(windows)
}

// saveClaims writes the rows that a plan changed; the plan left them in lane. It touches no
// receipts: they were not loaded. It adds the payloads that are known from an Add.
func (t *session) saveClaims(ctx context.Context, rows []*claimable, lane []store.LaneRow, payloads map[int64][]byte) error {
	for i, c := range rows {
		r := lane[i]
		if r.Row.Version == c.Now.Version {
			continue
		}
		var n int64
		var err error
		if r.Row.Attempt > c.Now.Attempt {
			n, err = t.exec(ctx, sqlClaim, claimArgs(c, r.Row)...)
			if payload, ok := t.fresh.Take(c.Seq, c.CreatedAt); ok {
				payloads[c.Seq] = payload
			}
		} else { // it goes back to the monitor
			n, err = t.exec(ctx, sqlUpdateOpen, append(openArgs(r.Row, c.Had), c.Seq, c.Now.Version)...)
		}
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows written, want 1", n)
		}
		if err != nil {
			return fmt.Errorf("batch %s: %w", r.Key, err)
		}
	}
	return nil
}

func claimArgs(c *claimable, r store.Row) []any {
	return []any{
		int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), sqlstore.ToMicro(r.ClaimExpires), sqlstore.ToMicro(r.NextCheck),
		int64(r.DoubtAttempt), sqlstore.ToMicro(r.DoubtSince), sqlstore.ToMicro(r.ResendUntil), int64(r.Resends), dueAt(r), r.ClaimedBy,
		r.ClaimTTL.Microseconds(), int64(r.Attempt), sqlstore.ToMicro(r.FirstClaimed),
		c.Seq, c.Now.Version,
	}
}

// A claim reads about so many bytes of payloads: others wait to write, so the rest is left
// to Payloads.
const claimedBytes = 1 << 20

// errEnough ends the reading of rows that are not needed any more.
var errEnough = errors.New("enough")

// claimedPayloads reads the payloads of the claimed batches that are not known from an Add, or the
// first of them. This connection has just claimed these batches: another connection would first
// read the pages again.
func (t *session) claimedPayloads(ctx context.Context, claimed *store.Claimed) error {
	var seqs []int64
	for _, r := range claimed.Runs {
		for _, c := range r.Batches {
			if _, known := claimed.Payloads[c.Row]; !known {
				seqs = append(seqs, c.Row)
			}
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	size := 0
	err := sqlstore.Each(ctx, t, func(p *payload) []any { return []any{&p.Seq, &p.bytes} }, func(p *payload) error {
		claimed.Payloads[p.Seq] = p.bytes
		if size += len(p.bytes); size >= claimedBytes {
			return errEnough
		}
		return nil
	}, sqlClaimedPayloads, encode(seqs))
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("load payloads: %w", err)
	}
	return nil
}

type payload struct {
	sqlstore.BatchCols
	bytes []byte
}

// Payloads is [store.Store].Payloads.
func (s *Store) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	payloads := make([][]byte, len(refs))
	if len(refs) == 0 {
		return payloads, nil
	}
	err := s.read(ctx, "load payloads", func(ctx context.Context, t *session) error {
		seqs, err := sqlstore.Seqs(ctx, t, len(refs), func(i int) store.Ref { return refs[i] })
		if err != nil {
			return err
		}
		// A number may have been used again since: the key must match, too. A ref that comes
		// twice is answered twice, with bytes of its own each time.
		bySeq := make(map[int64][]payload, len(seqs))
		err = sqlstore.Each(ctx, t, func(p *payload) []any { return append(p.KeyDest(), &p.bytes) }, func(p *payload) error {
			bySeq[p.Seq] = append(bySeq[p.Seq], *p)
			return nil
		}, sqlPayloads, encode(seqs))
		if err != nil {
			return err
		}
		for i, seq := range seqs {
			if left := bySeq[seq]; len(left) > 0 && left[0].Key() == refs[i].Key {
				payloads[i], bySeq[seq] = left[0].bytes, left[1:]
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return payloads, nil
}
