package submitter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

func kindOf(kind error) error { return &dlt.Error{Op: "submit", Kind: kind, Message: "m"} }

// TestJudge checks every result of an attempt under every budget.
func TestJudge(t *testing.T) {
	const unlimited, definite, everyTry = 0, 1, 2 // budgets; definite and everyTry have one attempt left
	type verdict struct {
		finding store.Finding
		spend   bool
		refund  bool
		last    bool
		kind    batch.ErrorKind
		delayed bool
	}
	accepted := verdict{finding: store.Accepted}
	doubt := verdict{finding: store.Doubtful, kind: batch.KindDoubt}
	refused := verdict{finding: store.Refused, spend: true, last: true, kind: batch.KindRejected}
	// If every try spends, the claim has spent it.
	refusedEvery := verdict{finding: store.Refused, last: true, kind: batch.KindRejected}
	failed := func(k batch.ErrorKind) verdict { return verdict{finding: store.Failed, kind: k, delayed: true} }
	// EveryTry spends one for each attempt that was posted (docs/design.md#budgets), before the
	// attempt is made. The last attempt ends the batch; if it is in doubt, once the doubt is
	// resolved.
	usedUp := func(f store.Finding) verdict {
		return verdict{finding: f, last: true, kind: batch.KindExhausted, delayed: f == store.Refused}
	}
	busy := [3]verdict{failed(batch.KindBusy), failed(batch.KindBusy), usedUp(store.Refused)}
	gone := [3]verdict{failed(batch.KindUnavailable), failed(batch.KindUnavailable), usedUp(store.Refused)}
	backAgain := failed(batch.KindMisconfigured)
	backAgain.refund = true
	barred := [3]verdict{failed(batch.KindMisconfigured), failed(batch.KindMisconfigured), backAgain}
	notNow := failed(batch.KindNotYet)
	notNow.refund = true
	notYet := [3]verdict{failed(batch.KindNotYet), failed(batch.KindNotYet), notNow}
	unsure := [3]verdict{doubt, doubt, usedUp(store.Doubtful)}
	never := [3]verdict{refused, refused, refusedEvery}
	taken := [3]verdict{accepted, accepted, accepted}

	for name, c := range map[string]struct {
		err  error
		want [3]verdict
	}{
		"accepted":             {nil, taken},
		"rejected":             {kindOf(dlt.ErrRejected), never},
		"busy":                 {kindOf(dlt.ErrBusy), busy},
		"unavailable":          {kindOf(dlt.ErrUnavailable), gone},
		"misconfigured":        {kindOf(dlt.ErrMisconfigured), barred},
		"not yet":              {kindOf(dlt.ErrNotYet), notYet},
		"not yet, or never":    {errors.Join(dlt.ErrNotYet, dlt.ErrRejected), unsure},
		"doubt":                {kindOf(dlt.ErrDoubt), unsure},
		"no kind":              {kindOf(nil), unsure},
		"bare sentinel":        {dlt.ErrBusy, busy},
		"wrapped":              {fmt.Errorf("a: %w", fmt.Errorf("b: %w", kindOf(dlt.ErrUnavailable))), gone},
		"wrapped rejection":    {fmt.Errorf("a: %w", dlt.ErrRejected), never},
		"joined with a detail": {errors.Join(errors.New("detail"), dlt.ErrBusy), busy},
		"joined with doubt":    {errors.Join(dlt.ErrRejected, dlt.ErrDoubt), unsure},
		"two kinds":            {errors.Join(dlt.ErrRejected, dlt.ErrBusy), unsure},
		"busy and unavailable": {errors.Join(dlt.ErrBusy, dlt.ErrUnavailable), unsure},
		"timeout":              {context.DeadlineExceeded, unsure},
		"cancelled":            {fmt.Errorf("post: %w", context.Canceled), unsure},
		"anything else":        {errors.New("connection reset"), unsure},
		"busy caused by doubt": {&dlt.Error{Kind: dlt.ErrBusy, Err: dlt.ErrDoubt}, unsure},
		"busy caused by reset": {&dlt.Error{Kind: dlt.ErrBusy, Err: errors.New("reset")}, busy},
	} {
		t.Run(name, func(t *testing.T) {
			for budget, want := range c.want {
				claim := store.Claim{
					Ref: store.Ref{Key: batch.Key{Service: "s", ID: "b"}, Row: 9}, Version: 4, From: batch.Delayed,
					Attempt: 3, Spent: 1, Failures: 2,
				}
				switch budget {
				case definite:
					claim.Budget = batch.Budget{Attempts: 2}
				case everyTry:
					claim.Budget, claim.Spent = batch.Budget{Attempts: 2, EveryTry: true}, 2
				case unlimited:
				}
				o := submitter.Judge(claim, c.err, true, submitter.Rules{
					FirstCheck: 11 * time.Millisecond,
					Delay:      func(_ batch.ServiceID, n int) time.Duration { return time.Duration(n) * time.Second },
					StuckAfter: time.Hour,
				})
				if o.Finding == store.Failed {
					assert.Equal(t, time.Hour, o.StuckAfter)
				} else {
					assert.Zero(t, o.StuckAfter)
				}
				assert.Equal(t, claim.Ref, o.Ref)
				assert.Equal(t, int64(4), o.Version, "fenced by the claim's version")
				assert.Equal(t, batch.BySubmitter, o.By)
				assert.Equal(t, 3, o.Attempt)
				assert.Equal(t, 11*time.Millisecond, o.Check)
				got := verdict{finding: o.Finding, spend: o.Spend, refund: o.Refund, last: o.Last, delayed: o.Delay > 0}
				if o.Error != nil {
					got.kind = o.Error.Kind
				}
				assert.Equal(t, want, got, "budget %d", budget)
				if o.Finding == store.Failed {
					assert.Equal(t, 3*time.Second, o.Delay, "the third failure in a row")
				}
			}
		})
	}
}

// A budget that is not used up does not end the batch.
func TestJudgeSpendsOneAtATime(t *testing.T) {
	r := submitter.Rules{Delay: func(batch.ServiceID, int) time.Duration { return time.Second }}
	c := store.Claim{Spent: 1, Budget: batch.Budget{Attempts: 2, EveryTry: true}}
	for _, err := range []error{dlt.ErrBusy, dlt.ErrDoubt, dlt.ErrUnavailable} {
		o := submitter.Judge(c, err, true, r)
		assert.False(t, o.Spend || o.Refund, "%v: the claim has spent it", err)
		assert.False(t, o.Last, "%v", err)
		assert.NotEqual(t, store.Refused, o.Finding, "%v", err)
	}
	o := submitter.Judge(c, dlt.ErrMisconfigured, true, r)
	assert.True(t, o.Refund && !o.Spend, "promise 10: a misconfiguration burns nothing")
}

func TestJudgeHonoursRetryAfter(t *testing.T) {
	r := submitter.Rules{Delay: func(batch.ServiceID, int) time.Duration { return 4 * time.Second }}
	for after, want := range map[time.Duration]time.Duration{0: 4 * time.Second, time.Second: 4 * time.Second, time.Minute: time.Minute} {
		for _, kind := range []error{dlt.ErrBusy, dlt.ErrNotYet} {
			err := fmt.Errorf("wrapped: %w", &dlt.Error{Kind: kind, RetryAfter: after})
			assert.Equal(t, want, submitter.Judge(store.Claim{}, err, true, r).Delay)
		}
	}
}

func TestUnpostedGoesBackToWhereItCameFrom(t *testing.T) {
	for _, from := range []batch.State{batch.Queued, batch.Delayed, batch.Unknown} {
		c := store.Claim{Version: 3, From: from, Budget: batch.Budget{Attempts: 1, EveryTry: true}}
		o := submitter.Unposted(c)
		require.Equal(t, store.Outcome{Version: 3, By: batch.BySubmitter, Finding: store.Unposted, Back: from, Refund: true}, o, "it spends nothing")
	}
}
