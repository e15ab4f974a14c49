package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Lanes is [store.Store].Lanes. It leaves out names that no call accepts; [Store.Upkeep] reports
// them.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	return s.unusable.Page(q, func(q store.LanesQuery) ([]batch.ServiceID, error) { return s.scan(ctx, q) })
}

func (s *Store) scan(ctx context.Context, q store.LanesQuery) (lanes []batch.ServiceID, err error) {
	err = s.read(ctx, "list lanes", func(ctx context.Context, t *session) (err error) {
		statement, args := sqlLanesAfter, []any{string(q.After), q.Limit}
		if q.Start {
			statement, args = sqlLanesFirst, args[1:]
		}
		lanes, err = sqlstore.Query[batch.ServiceID](ctx, t, statement, args...)
		return err
	})
	return lanes, err
}

// Claim is [store.Store].Claim. SQLite locks the whole database while choose runs, so Locked is
// always empty.
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
	var claims changeGroups[claimChange]
	lanes, left := sqlstore.Services(q.Lanes), q.Limit
	for len(lanes) > 0 && left > 0 {
		// Lanes are read together, but not many more than the limit lets through.
		some := lanes[:min(len(lanes), max(left/q.Window, 8), 500)]
		lanes = lanes[len(some):]
		windows, err := t.readAttempted(ctx, sqlAttempted, true, some, func(s batch.ServiceID, attempted []store.LaneRow) int {
			return store.Wanted(s, attempted, now, q)
		})
		if err != nil {
			return out, err
		}
		left, err = sqlstore.PlanLanes(windows, now, &q, left, choose, &out,
			func(windows []*window) error { return t.addWaiting(ctx, true, windows) },
			func(w *window, lane []store.LaneRow) error {
				return t.saveLane(ctx, w.rows, lane, &claims, out.Payloads)
			})
		if err != nil {
			return out, err
		}
	}
	out.Left = append(out.Left, lanes...)
	return out, t.saveClaims(ctx, claims)
}

// claimChange is how a claim changes a row: see sqlClaim.
type claimChange struct {
	wasVersion, state, version, attempt, spent, claimExpires, nextCheck      int64
	doubtAttempt, doubtSince, resendUntil, resends, dueAt, claimTTL, movedAt int64
	claimedBy                                                                string
}

func claimChangeOf(was int64, r *store.Row) claimChange {
	return claimChange{
		wasVersion: was, state: int64(r.State), version: r.Version, attempt: int64(r.Attempt), spent: int64(r.Spent),
		claimExpires: sqlstore.ToMicro(r.ClaimExpires), nextCheck: sqlstore.ToMicro(r.NextCheck), doubtAttempt: int64(r.DoubtAttempt),
		doubtSince: sqlstore.ToMicro(r.DoubtSince), resendUntil: sqlstore.ToMicro(r.ResendUntil), resends: int64(r.Resends),
		dueAt: sqlstore.DueAt(*r), claimTTL: r.ClaimTTL.Microseconds(), movedAt: sqlstore.ToMicro(r.MovedAt), claimedBy: r.ClaimedBy,
	}
}

// claimsOnly reports whether a claim has changed only columns that sqlClaim writes.
func claimsOnly(was, next *store.Row) bool {
	return next.LastPost.Equal(was.LastPost) && next.AskedAt.Equal(was.AskedAt) && next.NotBefore.Equal(was.NotBefore)
}

// saveLane writes the rows of a lane that a plan has changed in lane. Claimed rows are collected
// in claims, and written together with those of other lanes. saveLane does not write receipts,
// which were not loaded. It adds the payloads that are known from an Add.
func (t *session) saveLane(ctx context.Context, rows []*claimable, lane []store.LaneRow, claims *changeGroups[claimChange], payloads map[int64][]byte) error {
	for i, c := range rows {
		r := &lane[i]
		if r.Row.Version == c.Now.Version {
			continue
		}
		if r.Row.Attempt > c.Now.Attempt {
			if payload, ok := t.fresh.Take(c.Seq, c.CreatedAt); ok {
				payloads[c.Seq] = payload
			}
			if claimsOnly(&c.Now, &r.Row) {
				claims.add(claimChangeOf(c.Now.Version, &r.Row), c.Seq, 0)
				continue
			}
		}
		// The row goes back to the monitor, or its times were put right, too.
		n, err := t.Exec(ctx, sqlUpdateOpen, append(openArgs(r.Row, c.Had), c.Seq, c.Now.Version)...)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows written, want 1", n)
		}
		if err != nil {
			return fmt.Errorf("lane %q: batch %s: %w", r.Key.Service, r.Key, err)
		}
	}
	return nil
}

// saveClaims writes the claimed rows.
func (t *session) saveClaims(ctx context.Context, claims changeGroups[claimChange]) error {
	for _, g := range claims.list {
		if len(g.seqs) >= manyRows {
			if err := t.saveClaim(ctx, g.change, len(g.seqs), sqlClaimMany, jsonText(g.seqs)); err != nil {
				return err
			}
			continue
		}
		for _, seq := range g.seqs {
			if err := t.saveClaim(ctx, g.change, 1, sqlClaim, seq); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *session) saveClaim(ctx context.Context, c claimChange, rows int, statement string, seqs any) error {
	n, err := t.Exec(ctx, statement, c.state, c.version, c.attempt, c.spent, c.claimExpires, c.nextCheck, c.doubtAttempt, c.doubtSince,
		c.resendUntil, c.resends, dueArg(c.dueAt), c.claimedBy, c.claimTTL, c.movedAt, seqs, c.wasVersion)
	if err == nil && int(n) != rows {
		err = fmt.Errorf("%d rows claimed, want %d", n, rows)
	}
	return err
}

// maxClaimedBytes is about how many bytes of payloads a claim reads. It leaves the other payloads
// to Payloads, because other callers wait to write.
const maxClaimedBytes = 1 << 20

// errEnoughBytes ends the reading of rows when no more are needed.
var errEnoughBytes = errors.New("enough")

// claimedPayloads reads the payloads of the claimed batches that are not known from an Add, up to
// about maxClaimedBytes. It uses the connection that has just claimed these batches, since another
// connection would first read the pages again.
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
	type payload struct {
		Seq   int64  `db:"seq"`
		Bytes []byte `db:"serialized_batch"`
	}
	err := sqlstore.Each(ctx, t, func(p *payload) error {
		claimed.Payloads[p.Seq] = p.Bytes
		if size += len(p.Bytes); size >= maxClaimedBytes {
			return errEnoughBytes
		}
		return nil
	}, sqlClaimedPayloads, jsonText(seqs))
	if err != nil && !errors.Is(err, errEnoughBytes) {
		return fmt.Errorf("load payloads: %w", err)
	}
	return nil
}
