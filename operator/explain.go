package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/store"
)

// Explain returns why a batch does not move, and what would move it. It changes nothing, and its
// answer is true for one moment. It answers as a Runner's Explain does, with the settings that are
// on record. It finds in the rows of the live instances ([store.Instance].Unserved) that no Runner
// serves the service ([batch.CauseUnserved]), for a batch that would otherwise move. It returns
// [batch.ErrNotFound], the store's error, or a [*SettingsError] if the answer depends on settings
// that are not known. An answer about a batch that is paused or in doubt, for example, does not
// depend on settings.
func (d *Desk) Explain(ctx context.Context, key batch.Key) (batch.Explanation, error) {
	e, err := d.explain(ctx, key)
	if err != nil {
		return batch.Explanation{Key: key}, fmt.Errorf("explain %s: %w", key, err)
	}
	return e, nil
}

func (d *Desk) explain(ctx context.Context, key batch.Key) (e batch.Explanation, err error) {
	r, err := d.readServiceRecord(ctx, key.Service)
	if err != nil {
		return e, err
	}
	rules, err := r.claimRules()
	if err != nil {
		return e, err
	}
	look, err := d.store.Look(ctx, key, rules.query.Window)
	if err != nil {
		return e, err
	}
	if e, err = rules.judge(look); err != nil && !errors.Is(err, ErrNotRecorded) {
		return e, err
	}
	unmet := err // the record lacks something; perhaps no instance posts
	if unmet != nil {
		e.Cause, e.Remedy = CauseUnknown, batch.RemedyWait
	} else {
		e.Text = explain.Sentence(e)
	}
	if !movesItself(e.Cause) {
		return e, nil
	}
	s, counted, err := d.readCounts(ctx)
	if err != nil {
		return e, err
	}
	if why, is := unservedLanes(s.Instances)[key.Service]; is && isUnserved(e.Cause) {
		return withUnserved(e, why), nil
	}
	held := whyHeldBy(e.Cause, key.Service, r.ledger, counted, s)
	if unmet != nil && (held == "" || len(s.Instances) == 0) {
		return e, unmet
	}
	if held != "" {
		e.Text = waitText(e, held)
	}
	return e, nil
}

// claimRules say how batches are claimed, as far as the settings are on record.
type claimRules struct {
	query  store.ClaimQuery
	choose store.Choose
	// queryErr is the error if nothing may be concluded from query, and chooseErr the error if
	// nothing may be concluded from choose; nil if conclusions are allowed.
	queryErr, chooseErr error
	unknownReason       Reason // the reason of batches whose explanation needs choose
}

// isNumbered calls store.ClaimQuery.Numbered; it is false if that is nil.
func (u claimRules) isNumbered(s batch.ServiceID) bool {
	return u.query.Numbered != nil && u.query.Numbered(s)
}

// claimRules returns the rules for claims from the record. A missing setting becomes an error only
// when an explanation depends on it.
func (r serviceRecord) claimRules() (u claimRules, err error) {
	u.query.Window = 1
	if u.queryErr = r.checkUsable("strategy, claim_ttl and traits", claimsAlike); u.queryErr != nil {
		u.chooseErr, u.unknownReason = u.queryErr, unknownReason(u.queryErr)
		return u, nil //nolint:nilerr // u.refuse holds the error
	}
	known := false
	if u.query, u.choose, known, err = r.Rules(); err != nil {
		return u, err
	}
	if !known {
		why := fmt.Sprintf("%s is the application's own", r.Strategy)
		u.chooseErr = &SettingsError{Service: r.service, Ledger: r.ledger, Setting: "strategy", Why: why, Err: ErrNotRecorded}
		u.unknownReason = unknownReason(u.chooseErr)
	}
	return u, nil
}

// claimsAlike reports whether processes with these settings claim in the same way.
func claimsAlike(a, b relied.Settings) bool {
	a.Grace, a.ResendQuiet, a.Settle, a.AddAgain, a.Withdraws = b.Grace, b.ResendQuiet, b.Settle, b.AddAgain, b.Withdraws
	return a.Same(b)
}

// judge explains a batch without adding a sentence. The error says which missing setting the
// explanation depends on.
func (u claimRules) judge(l store.Look) (batch.Explanation, error) {
	var missingErr error
	q, choose := u.query, u.choose
	if u.queryErr != nil {
		q.Resend = func(batch.ServiceID) store.Resend {
			missingErr = u.queryErr
			return store.Resend{}
		}
	}
	if u.chooseErr != nil {
		choose = func(batch.Lane) []batch.Run {
			missingErr = u.chooseErr
			return nil
		}
	}
	return explain.Judge(l, q, choose), missingErr
}
