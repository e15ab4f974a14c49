package flaky

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// newBatch returns a batch of the trial.
func (e *trial) newBatch(service string, id any) batch.Batch {
	b := batch.Batch{Service: batch.ServiceID(e.name + service), ID: batch.ID(fmt.Sprint(e.name, service, "-", id)), Payload: fmt.Appendf(nil, "payload %v", id)}
	e.dumpKey(b.Key())
	return b
}

// dumpKey adds a key to those that dump shows.
func (e *trial) dumpKey(k batch.Key) {
	if !slices.Contains(e.dumpedKeys, k) {
		e.dumpedKeys = append(e.dumpedKeys, k)
	}
}

// addBatches adds n batches of a lane.
func (e *trial) addBatches(service string, n int) (all []batch.Batch) {
	e.Helper()
	for i := range n {
		all = append(all, e.newBatch(service, i))
	}
	require.NoError(e, e.Faultless.Add(e.Context(), all...))
	return all
}

// claimLanes claims all batches of some lanes, with a salt that makes the versions the same in
// each try.
func (e *trial) claimLanes(on store.Store, salt uint32, services ...string) (store.Claimed, error) {
	q := store.ClaimQuery{Limit: 9, Window: 9, TTL: time.Hour, Salt: salt, Instance: "flaky"}
	for _, s := range services {
		q.Lanes = append(q.Lanes, batch.ServiceID(e.name+s))
	}
	return on.Claim(e.Context(), q, func(l batch.Lane) []batch.Run {
		var run batch.Run
		for i, b := range l.Batches {
			if b.Ready {
				run = append(run, i)
			}
		}
		return []batch.Run{run}
	})
}

func sortedClaims(c store.Claimed) (all []store.Claim) {
	for _, r := range c.Runs {
		all = append(all, r.Batches...)
	}
	slices.SortFunc(all, func(a, b store.Claim) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return all
}

// claimedBatches adds and claims batches, and returns the claims.
func (e *trial) claimedBatches(service string, n int) []store.Claim {
	e.Helper()
	e.addBatches(service, n)
	got, err := e.claimLanes(e.Faultless, 1000, service)
	require.NoError(e, err)
	all := sortedClaims(got)
	require.Len(e, all, n)
	return all
}

// finalBatches adds batches and makes them final.
func (e *trial) finalBatches(service string, n int, finding store.Finding) {
	e.Helper()
	var outcomes []store.Outcome
	for _, c := range e.claimedBatches(service, n) {
		o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: finding}
		if finding == store.Refused {
			o.Error = &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
		}
		outcomes = append(outcomes, o)
	}
	_, err := e.recordOutcomes(e.Faultless, outcomes)
	require.NoError(e, err)
}

func (e *trial) recordOutcomes(on store.Store, outcomes []store.Outcome) (any, error) {
	done, err := on.Record(e.Context(), outcomes)
	var all []string
	for _, a := range done {
		all = append(all, fmt.Sprint(a.Key, " ", a.Result, " ", a.From, " ", a.Halted))
	}
	return all, err
}

var person = batch.By{Actor: "ada", Reason: "ticket 9"}

// personOperation returns an operation by which a person acts upon a batch.
func personOperation(name string, set func(e *trial) batch.Key, do func(e *trial, seen batch.Record) (batch.Record, error)) operation {
	return operation{
		name: name,
		prepare: func(e *trial) {
			seen, err := e.Faultless.Get(e.Context(), set(e))
			require.NoError(e, err)
			e.prepared = seen
		},
		run: func(e *trial) (any, error) { return do(e, e.prepared.(batch.Record)) },
	}
}

// operations returns all operations that change stored data.
func operations() []operation {
	return slices.Concat(addOperations(), deliveryOperations(), personOperations(), upkeepOperations(), orderOperations())
}

func addOperations() []operation {
	list := func(n int, of func(e *trial) []batch.Batch) func(e *trial) {
		return func(e *trial) {
			all := of(e)
			for i := range max(n, -n*e.ManyBatches) {
				all = append(all, e.newBatch("b", i))
			}
			e.prepared = all
			if len(e.dumpedKeys) > 10 {
				e.dumpedKeys = append(e.dumpedKeys[:2:2], e.dumpedKeys[len(e.dumpedKeys)-2:]...) // a dump reads only these
			}
		}
	}
	none := func(*trial) []batch.Batch { return nil }
	some := func(e *trial) []batch.Batch {
		first := e.newBatch("a", "x")
		first.DataChangeID = e.name + "change"
		first.Transactions = []batch.Transaction{{ID: e.name + "1", FamilyName: "f", FamilyVersion: "1"}}
		return []batch.Batch{first, e.newBatch("a", "y")}
	}
	known := func(e *trial) []batch.Batch {
		all := some(e)
		require.NoError(e, e.Faultless.Add(e.Context(), all...))
		return append(all, all[0])
	}
	add := func(e *trial) (any, error) { return nil, e.Store.Add(e.Context(), e.prepared.([]batch.Batch)...) }
	addTx := func(e *trial) (any, error) { return nil, e.AddTx(e.Context(), e.prepared.([]batch.Batch)...) }
	return []operation{
		{name: "add", prepare: list(7, some), run: add},
		{name: "add what is known", prepare: list(2, known), run: add},
		{name: "add many", prepare: list(-1, none), run: add},
		{name: "add in a transaction", prepare: list(7, some), run: addTx},
		{name: "add what is known in a transaction", prepare: list(2, known), run: addTx},
	}
}

func deliveryOperations() []operation {
	outcomes := func(known bool) func(e *trial) {
		return func(e *trial) {
			_, _, err := e.Faultless.Steer(e.Context(), store.Steering{
				Action: batch.ActionSetPolicy, Policy: batch.PolicyHalt, Scope: batch.Only(batch.ServiceID(e.name + "c")), By: person,
			})
			require.NoError(e, err)
			var all []store.Outcome
			for i, service := range []string{"a", "b", "c"} {
				for _, c := range e.claimedBatches(service, 1) {
					o := store.Outcome{
						Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Check: time.Hour,
						Finding: [...]store.Finding{store.Accepted, store.IsCommitted, store.Refused}[i],
					}
					if known {
						o.Was = c.Was
					}
					switch service {
					case "b":
						o.Receipts = []batch.Receipt{{TransactionID: "1", Valid: true, Data: []byte{1}}}
					case "c":
						o.Error = &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
						o.Report = &batch.Report{Attempt: c.Attempt, Kind: batch.KindRejected}
						o.Policy = batch.PolicyHalt
					}
					all = append(all, o)
				}
			}
			e.prepared = all
		}
	}
	record := func(e *trial) (any, error) { return e.recordOutcomes(e.Store, e.prepared.([]store.Outcome)) }
	return []operation{
		{
			name: "claim", answerCounts: true,
			prepare: func(e *trial) { e.addBatches("a", 2); e.addBatches("b", 1) },
			run: func(e *trial) (any, error) {
				got, err := e.claimLanes(e.Store, 1000, "a", "b")
				e.prepared = sortedClaims(got)
				var named []string
				for _, c := range sortedClaims(got) {
					named = append(named, fmt.Sprint(c.Key, " ", c.Attempt, " ", c.Version, " ", string(got.Payloads[c.Row])))
				}
				return named, err
			},
			undo: func(e *trial, _ any) { // the claimed batches are put back, so that all wait again
				var back []store.Outcome
				for _, c := range e.prepared.([]store.Claim) {
					back = append(back, store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Unposted, Back: c.From})
				}
				_, err := e.recordOutcomes(e.Faultless, back)
				require.NoError(e, err)
				free := 0
				e.retryWhileLocked(func() bool {
					again, err := e.claimLanes(e.Faultless, 2000, "a", "b")
					require.NoError(e, err)
					free += len(sortedClaims(again))
					return free == 3
				})
				require.Equal(e, 3, free, "something is still claimed")
			},
		},
		{name: "record what comes with its row", prepare: outcomes(true), run: record},
		{name: "record", prepare: outcomes(false), run: record},
		{
			name: "lease rows", // a lease does not show in a dump
			prepare: func(e *trial) {
				var all []store.Outcome
				for _, c := range e.claimedBatches("a", 2) {
					all = append(all, store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted})
				}
				_, err := e.recordOutcomes(e.Faultless, all)
				require.NoError(e, err)
			},
			run: func(e *trial) (any, error) {
				rows, err := e.Store.Pending(e.Context(), store.PendingQuery{Limit: 99, Lease: time.Hour})
				var named []batch.ID
				for _, r := range rows {
					named = append(named, r.Key.ID)
				}
				slices.Sort(named)
				return named, err
			},
			undo: func(e *trial, answer any) { // nobody reads rows that are leased and not named
				known := map[batch.ID]bool{}
				for _, id := range answer.([]batch.ID) {
					known[id] = true
				}
				e.retryWhileLocked(func() bool {
					rows, err := e.Faultless.Pending(e.Context(), store.PendingQuery{Limit: 99, Lease: time.Hour})
					require.NoError(e, err)
					for _, r := range rows {
						known[r.Key.ID] = true
					}
					leased := true
					for _, key := range e.dumpedKeys {
						look, err := e.Faultless.Look(e.Context(), key, 1)
						require.NoError(e, err)
						leased = leased && look.Row.NextCheck.Sub(look.At) > time.Minute
					}
					return len(known) == 2 && leased // the transaction of a connection that was cut may still have the rows locked
				})
				require.Len(e, known, 2, "a row is leased, and nobody knows it")
			},
		},
		{
			name:    "keep prepared bytes",
			prepare: func(e *trial) { e.prepared = e.claimedBatches("a", 2) },
			run: func(e *trial) (any, error) {
				var list []store.Prepared
				for _, c := range e.prepared.([]store.Claim) {
					list = append(list, store.Prepared{Ref: c.Ref, Version: c.Version, Bytes: []byte("prepared")})
				}
				return e.Store.KeepPrepared(e.Context(), list)
			},
		},
	}
}

func personOperations() []operation {
	waits := func(e *trial) batch.Key { return e.addBatches("a", 2)[0].Key() }
	rejected := func(e *trial) batch.Key {
		e.finalBatches("a", 1, store.Refused)
		e.addBatches("a", 3)
		return e.dumpedKeys[0]
	}
	return []operation{
		personOperation("cancel", waits, func(e *trial, seen batch.Record) (batch.Record, error) {
			return e.Store.Cancel(e.Context(), seen, person)
		}),
		personOperation("requeue", rejected, func(e *trial, seen batch.Record) (batch.Record, error) {
			return e.Store.Requeue(e.Context(), seen, store.Requeue{}, person)
		}),
		personOperation("decide", func(e *trial) batch.Key {
			c := e.claimedBatches("a", 1)[0]
			_, err := e.recordOutcomes(e.Faultless, []store.Outcome{{
				Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Doubtful, Error: &batch.SubmissionError{Kind: batch.KindDoubt, Message: "?"},
			}})
			require.NoError(e, err)
			return c.Key
		}, func(e *trial, seen batch.Record) (batch.Record, error) {
			return e.Store.Decide(e.Context(), seen, batch.WasCommitted, person)
		}),
		{
			name: "pause", prepare: func(e *trial) { e.addBatches("a", 1) },
			run: func(e *trial) (any, error) {
				_, _, err := e.Store.Steer(e.Context(), store.Steering{Action: batch.ActionPause, Scope: batch.Only(e.dumpedKeys[0].Service), By: person})
				return nil, err
			},
		},
		{
			name: "keep texts", prepare: func(e *trial) {
				e.dumpMore = func() any {
					kept, _, err := e.Faultless.ReadTexts(e.Context(), "flaky", e.name, e.name+" part")
					require.NoError(e, err)
					return []any{kept[0].Body, kept[1].Body}
				}
			},
			run: func(e *trial) (any, error) {
				_, err := e.Store.SwapTexts(e.Context(), store.Text{Kind: "flaky", Name: e.name, Body: "text"}, store.Text{Kind: "flaky", Name: e.name + " part", Body: "one"})
				return nil, err
			},
		},
	}
}

func upkeepOperations() []operation {
	return []operation{
		{
			name: "prune", hasSeveralTransactions: true,
			prepare: func(e *trial) {
				_, err := e.Faultless.Prune(e.Context(), store.PruneQuery{Limit: 100_000}) // removes the rows of other trials
				require.NoError(e, err)
				e.finalBatches("a", 2, store.IsCommitted)
				e.finalBatches("b", 1, store.Refused)
				e.addBatches("a", 3)
			},
			run: func(e *trial) (any, error) {
				_, err := e.Store.Prune(e.Context(), store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
				return nil, err
			},
		},
		{
			name: "journal", hasSeveralTransactions: true,
			prepare: func(e *trial) {
				e.dumpMore = func() any {
					found, err := e.Faultless.FindStream(e.Context(), e.name, []string{"1", "2"})
					require.NoError(e, err)
					slices.Sort(found.IDs)
					return []any{found.IDs, found.Cursor}
				}
			},
			run: func(e *trial) (any, error) {
				epoch, held, err := e.Store.LeaseStream(e.Context(), e.name, "holder", time.Hour)
				if err != nil || !held {
					return held, err
				}
				return e.Store.AppendStream(e.Context(), batch.StreamEntry{Stream: e.name, Epoch: epoch, IDs: []string{"1", "2"}, Cursor: "c"})
			},
		},
	}
}
