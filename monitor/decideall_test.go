package monitor_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

// TestDecideEverything calls Decide with all combinations of its inputs, and checks each verdict
// against the promises and against the row's own rules.
func TestDecideEverything(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	now := time.Unix(1_000_000, 0)
	ages := []time.Duration{
		-time.Minute, 0, lateArrival - 1, lateArrival, grace - 1, grace, resendQuiet - 1, resendQuiet, 10 * time.Minute, stuckAfter, stuckAfter + 1, 100 * time.Hour,
	}
	seens := []time.Duration{0, lateArrival - 1, lateArrival, grace - 1, grace, claimTTL + lateArrival - 1, claimTTL + lateArrival}
	harmlessFor := []time.Duration{0, 2 * time.Hour, dlt.Forever}
	budgets := []batch.Budget{{}, {Attempts: 2}, {Attempts: 2, EveryTry: true}}
	words := []batch.Reported{0, 1, 2, 3, 4, 5, 6, 7, 8, unknownWord}
	proofs := []*dlt.Evidence{nil, evidence(dlt.CannotTell), evidence(dlt.InFlight), evidence(dlt.Committed), evidence(dlt.NotCommitted)}
	count := 0
	for _, state := range []batch.State{batch.Submitting, batch.Pending, batch.Valid, batch.Invalid} {
		for _, age := range ages {
			for bits := range 1 << 7 {
				refused, requeued, undecided := bits&1 != 0, bits&2 != 0, bits&4 != 0
				resends, resolves := bits>>3&1, bits&16 != 0
				crashed, failures := bits&32 != 0, bits>>6&1
				if crashed && state != batch.Submitting {
					continue
				}
				for _, harmless := range harmlessFor {
					for b, budget := range budgets {
						row := store.Row{
							State: state, Version: 5, Attempt: 3, Spent: b, DoubtAttempt: 3 - resends, DoubtSince: now.Add(-age - claimTTL),
							Failures: failures, Resends: resends, Refused: refused, Requeued: requeued, LastPost: now.Add(-age),
							Prepared: []byte("kept"),
						}
						row.ResendUntil = row.DoubtSince.Add(harmless)
						if refused {
							row.Error = &batch.SubmissionError{Kind: batch.KindRejected}
						}
						switch state {
						case batch.Submitting:
							row.ClaimExpires = now.Add(-age)
							if crashed { // the end of the attempt was not recorded
								row.LastPost = time.Time{}
							}
						case batch.Invalid:
							row.SettlesAt = now.Add(ledgerTraits.Settle - age)
						}
						if undecided {
							row.Decision = "told"
						}
						if row.Live(now) {
							continue // the submitter's state
						}
						f := row.InFlight(store.Ref{Key: batch.Key{ID: "b"}}, budget, now)
						tr := ledgerTraits
						tr.Resolves = resolves
						for _, word := range words {
							for _, named := range []int{0, 1, 2, 3, 4} {
								if named != 0 && word != batch.ReportedFailed && word != batch.ReportedInvalid {
									continue // only looked at for these
								}
								for _, seen := range seens {
									for _, proof := range proofs {
										if proof != nil && (word != batch.ReportedUnknown || !resolves || state == batch.Invalid || age < grace || seen < max(lateArrival, grace) || (!f.Ended && seen < claimTTL+lateArrival)) {
											continue // Resolve is asked only after a verdict that says so
										}
										k := monitor.Known{Seen: seen, Evidence: proof}
										if word != 0 {
											k.Status = &batch.Status{ID: "b", Reported: word, Attempt: named}
										}
										count++
										v := monitor.Decide(f, k, tr, rules)
										if err := brokenPromise(row, f, k, tr, v, now); err != nil {
											t.Fatalf("%v\nrow %+v\nfound %s (attempt %d), evidence %v, seen %s, harmless %s, budget %+v",
												err, row, word, named, proof, seen, harmless, budget)
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	assert.Greater(t, count, 100_000)
}

// TestDecideEverythingAboutWhatWasShown does the same for attempts that a node has shown: only an
// answer of the same node about the same attempt ends the long wait early.
func TestDecideEverythingAboutWhatWasShown(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	early := 0
	for _, state := range []batch.State{batch.Submitting, batch.Pending, batch.Valid} {
		for _, age := range []time.Duration{0, lateArrival, grace - 1, grace, resendQuiet - 1, resendQuiet, stuckAfter + 1} {
			for bits := range 1 << 4 {
				for shown := range 5 { // the attempt that was shown; 0 is none
					row := store.Row{
						State: state, Version: 5, Attempt: 3, DoubtAttempt: 3 - bits&1, Resends: bits & 1, DoubtSince: now.Add(-age - claimTTL),
						LastPost: now.Add(-age), ResendUntil: now.Add(24 * time.Hour), SeenAttempt: shown, Refused: bits&2 != 0,
					}
					if shown != 0 {
						row.SeenEndpoint = "node"
					}
					if bits&4 != 0 {
						row.Decision = "told"
					}
					if state == batch.Submitting {
						row.ClaimExpires = row.LastPost
					}
					f := row.InFlight(store.Ref{Key: batch.Key{ID: "b"}}, batch.Budget{}, now)
					tr := ledgerTraits
					tr.Resolves = bits&8 != 0
					for _, word := range []batch.Reported{batch.ReportedUnknown, batch.ReportedPending, batch.ReportedValid, batch.ReportedInvalid} {
						for _, by := range []string{"", "node", "other"} {
							k := monitor.Known{Seen: age, Status: &batch.Status{ID: "b", Reported: word, Endpoint: by}}
							v := monitor.Decide(f, k, tr, rules)
							if v.Outcome != nil && v.Outcome.Finding == store.NoTrace && f.Resends > 0 && age < resendQuiet {
								early++
							}
							if err := brokenPromise(row, f, k, tr, v, now); err != nil {
								t.Fatalf("%v\nrow %+v\nfound %s by %q", err, row, word, by)
							}
						}
					}
				}
			}
		}
	}
	assert.Positive(t, early)
}

// brokenPromise returns the promise that a verdict breaks.
func brokenPromise(row store.Row, f store.InFlight, k monitor.Known, tr dlt.Traits, v monitor.Verdict, now time.Time) error {
	over := min(f.PostedAgo, k.Seen) >= max(tr.LateArrival, tr.Grace)
	unknown := k.Status != nil && k.Status.Reported == batch.ReportedUnknown
	if k.Status != nil && f.State == batch.Submitting && f.DoubtAttempt < f.Attempt {
		// A verdict that is recorded already tells nothing about the earlier attempt.
		unknown = unknown || (k.Status.Reported == batch.ReportedFailed && (f.Refused || (f.Ended && f.Failures > 0))) ||
			(k.Status.Reported == batch.ReportedInvalid && f.Refused && k.Status.Attempt > f.DoubtAttempt)
	}
	another := k.Status != nil && k.Status.Attempt != 0 && k.Status.Attempt != f.Attempt && !(k.Status.Attempt == f.DoubtAttempt && f.Resends == 0)
	unknown = unknown || (another && k.Status.Reported == batch.ReportedInvalid)
	unknown = unknown || (another && k.Status.Reported == batch.ReportedFailed && k.Status.Attempt < f.Attempt)
	proved := over && (f.Ended || k.Seen >= claimTTL+tr.LateArrival)
	if v.Resolve && (!proved || v.Outcome != nil || !tr.Resolves || !over || !unknown) {
		return fmt.Errorf("asks for evidence that is not due")
	}
	if v.Outcome == nil {
		if v.Next <= 0 || v.Next > pollInterval {
			return fmt.Errorf("next question in %s", v.Next)
		}
		return nil
	}
	o := *v.Outcome
	exhausted := f.Budget.Exhausted(f.Spent)
	switch o.Finding {
	case store.NoTrace:
		over = f.PostedAgo >= max(tr.LateArrival, tr.Grace) // a resend is harmless, so the database's clock is enough
		gone := row.SeenAttempt == row.Attempt && row.SeenEndpoint != "" && k.Status.Endpoint == row.SeenEndpoint
		if k.Status.Reported == batch.ReportedStalled {
			refunds := f.Budget.EveryTry && f.Spent > 0
			if refunds {
				exhausted = f.Budget.Exhausted(f.Spent - 1)
			}
			if o.Refund != f.Budget.EveryTry || f.Refused || exhausted || f.ResendLeft < claimTTL+tr.LateArrival || f.PostedAgo < max(tr.ResendQuiet, tr.LateArrival, pollInterval) {
				return fmt.Errorf("promise 3: a stalled batch is sent again at risk, or too soon, or at a cost")
			}
		} else if !unknown || !over || f.Refused || exhausted || f.ResendLeft < claimTTL+tr.LateArrival || (f.Resends > 0 && f.PostedAgo < tr.ResendQuiet && !gone) {
			return fmt.Errorf("promise 3: sent again at risk")
		}
	case store.NotCommitted:
		if k.Evidence == nil || *k.Evidence != dlt.NotCommitted || !proved {
			return fmt.Errorf("promise 3: not shown to be not committed")
		}
	case store.IsVoid:
		if k.Status == nil || k.Status.Reported != batch.ReportedVoid || !bytes.Equal(o.Prepared, f.Prepared) {
			return fmt.Errorf("promise 3: nobody said that these bytes are void")
		}
	case store.Failed, store.Refused:
		if k.Status == nil || k.Status.Reported != batch.ReportedFailed || (k.Status.Attempt != 0 && k.Status.Attempt != f.Attempt) {
			return fmt.Errorf("promise 10: nobody said that this attempt failed")
		}
	case store.IsCommitted:
		if (k.Status == nil || k.Status.Reported != batch.ReportedCommitted) && (k.Evidence == nil || *k.Evidence != dlt.Committed) {
			return fmt.Errorf("promise 10: nobody said committed")
		}
	case store.IsInvalid:
		if another {
			return fmt.Errorf("promise 10: the verdict is about another attempt")
		}
		if f.Requeued && min(f.PostedAgo, k.Seen) < tr.Settle {
			return fmt.Errorf("a verdict from before the requeue")
		}
		if f.State == batch.Submitting && k.Status.Attempt != f.Attempt && !(f.PostedAgo >= tr.LateArrival && k.Seen >= tr.LateArrival && (f.Ended || k.Seen >= claimTTL+tr.LateArrival)) {
			return fmt.Errorf("promise 10: the attempt that is in doubt may yet be committed")
		}
	case store.Settled:
		if f.SettleLeft > 0 || k.Seen < tr.Settle {
			return fmt.Errorf("settled too early")
		}
	case store.Undecidable:
		if f.Undecided {
			return fmt.Errorf("told twice")
		}
	}
	next, applied := row.Apply(o, now)
	if applied.Result != store.Written {
		return fmt.Errorf("the row refuses %s: %d %w", o.Finding, applied.Result, applied.Err)
	}
	if f.DoubtAttempt < f.Attempt && next.State == batch.Rejected && o.Finding != store.NotCommitted && o.Finding != store.IsVoid {
		return fmt.Errorf("promise 3: rejected while a doubt is open")
	}
	return nil
}
