package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// incident is an incident that an operator is called about.
type incident struct {
	name  string
	stage func(s *stagedConsole)
	// isMendedHere is true if the console and the command can mend the incident: with at most
	// three clicks and one typed word, or with three commands. Otherwise two clicks, or two
	// commands, lead to its cause, and the page says what to do elsewhere.
	isMendedHere   bool
	mendInConsole  func(p *person)
	mendByCommands func(p *person)
	checkMended    func(p *person)
}

func incidents() []incident {
	rejects := func(s *stagedConsole) {
		s.runInstance("one", faultyLedger(true, faultOfBatch("b1", memory.Rejected)), dltbatch.Options{Policy: batch.PolicyHalt})
		s.add(newBatch("orders", "b1"), newBatch("orders", "b2"))
		s.waitUntil("a halt", func() bool {
			c, err := s.st.Control(s.Context(), batch.Only("orders"))
			require.NoError(s, err)
			return c.Closed()
		})
	}
	closed := func(k memory.FaultKind) func(s *stagedConsole) {
		return func(s *stagedConsole) {
			s.runInstance("one", faultyLedger(true, faultAlways(k)), dltbatch.Options{})
			s.add(newBatch("orders", "b1"))
			s.waitUntilPaused()
		}
	}
	doubt := func(s *stagedConsole, o dltbatch.Options, batches ...batch.Batch) {
		s.runInstance("one", faultyLedger(false, func(a batch.Attempt) memory.Fault {
			if a.ID == "b1" && a.Number == 1 {
				return memory.Fault{Kind: memory.LostRequest}
			}
			return memory.Fault{}
		}), o)
		s.add(batches...)
		s.waitUntilUndecided("orders", "b1")
	}
	decided := func(p *person) {
		p.waitUntil("all of the lane", func() bool { return p.readRecord("orders", "b1").Final() && p.readRecord("orders", "b2").Final() })
		require.Equal(p, batch.Committed, p.readRecord("orders", "b1").State)
		acts, err := p.st.History(p.Context(), batch.Key{Service: "orders", ID: "b1"})
		p.checkLastAct(acts, err, batch.ActionDecide)
	}
	steered := func(action batch.Action) func(p *person) {
		return func(p *person) {
			acts, err := p.st.LaneHistory(p.Context(), batch.Only("orders"))
			p.checkLastAct(acts, err, action)
		}
	}
	return []incident{
		{
			name: "a halted lane", stage: rejects, isMendedHere: true, checkMended: steered(batch.ActionRelease),
			mendInConsole: func(p *person) {
				p.checkWords("1 lane is halted until a person releases it.")
				p.click("Release the lane")
				p.typeInto("release-reason", ticketReason)
				p.typeInto("release-confirm", "release")
				p.pressButton("Release")
				p.checkWords("Done: release by ada")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "release")
				p.command("release", "release", "orders", "--reason", ticketReason)
			},
		},
		{
			name: "a decision after a lost answer", isMendedHere: true, checkMended: decided,
			stage: func(s *stagedConsole) {
				doubt(s, dltbatch.Options{}, newBatch("orders", "b1"), newBatch("orders", "b2"))
			},
			mendInConsole: func(p *person) {
				p.checkWords("A person has to decide")
				p.click("Decide")
				p.clickElement("decide-not_executed_send_again")
				p.typeInto("decide-reason", ticketReason)
				p.typeInto("decide-confirm", "not_executed_send_again")
				p.pressButton("Decide")
				p.checkWords("Done: decide by ada")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "decide b1")
				p.command("decide", "decide", "b1", "not_executed_send_again", "--reason", ticketReason)
			},
		},
		{
			name: "a ledger that is closed", stage: closed(memory.Unavailable),
			mendInConsole: func(p *person) {
				p.checkWords("Nothing is posted: the ledger is not reached.", "Look whether the ledger runs and the network leads to it")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "instances"), "Nothing is posted: the ledger is not reached.")
			},
		},
		{
			name: "paused and forgotten", isMendedHere: true, checkMended: steered(batch.ActionResume),
			stage: func(s *stagedConsole) {
				s.runInstance("one", faultyLedger(true, faultAlways(memory.None)), dltbatch.Options{})
				_, _, err := s.st.Steer(s.Context(), store.Steering{Scope: batch.Only("orders"), Action: batch.ActionPause, By: bob})
				require.NoError(s, err)
				s.add(newBatch("orders", "b1"))
			},
			mendInConsole: func(p *person) {
				p.checkWords("By bob: for a moment")
				p.click(`Resume service "orders"`)
				p.typeInto("resume-reason", ticketReason)
				p.pressButton("Resume")
				p.checkWords("Done: resume by ada")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "bob")
				p.command("", "resume", "orders", "--reason", ticketReason)
			},
		},
		{
			name: "a poisonous order",
			stage: func(s *stagedConsole) {
				require.NoError(s, s.st.AddOrders(s.Context(), order.Order{ID: "poison", Party: "acme", Payload: []byte("x")}))
				done, err := s.st.FailOrders(s.Context(), []order.Verdict{{
					Ref: order.Ref{ID: "poison", Version: 1}, State: order.Quarantined,
					Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: "unknown asset"},
				}})
				require.NoError(s, err)
				require.Equal(s, []bool{true}, done)
				s.countNow()
			},
			mendInConsole: func(p *person) {
				p.checkWords("1 order was refused alone within a day.")
				p.click("Orders that were refused alone")
				p.checkWords("poison", "unknown asset", "their own content is at fault", "correct it where it was made")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "dltbatch orders --state quarantined")
				require.Contains(p, p.command("", "orders", "--state", "quarantined"), "unknown asset")
			},
		},
		{
			name: "a lane behind a conflict", isMendedHere: true, checkMended: decided,
			stage: func(s *stagedConsole) {
				doubt(s, dltbatch.Options{Strategy: queuer.Parallel(0)}, newBatch("orders", "b1", "account"), newBatch("orders", "b2", "account"), newBatch("orders", "b3", "account"), newBatch("orders", "b4", "other"))
				s.waitUntil("what conflicts with nothing", func() bool { return s.readRecord("orders", "b4").Final() })
			},
			mendInConsole: func(p *person) {
				p.checkWords("A person has to decide about 1 batch.", "wait behind others", "b1")
				p.click("Decide")
				p.clickElement("decide-not_executed_send_again")
				p.typeInto("decide-reason", ticketReason)
				p.typeInto("decide-confirm", "not_executed_send_again")
				p.pressButton("Decide")
				p.checkWords("Done: decide by ada")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "explain", "b3"), "b1")
				p.command("decide", "decide", "b1", "not_executed_send_again", "--reason", ticketReason)
			},
		},
		{
			name: "an instance that died with claims",
			stage: func(s *stagedConsole) {
				s.runInstance("one", faultyLedger(true, faultAlways(memory.None)), dltbatch.Options{})()
				s.add(newBatch("orders", "b1"))
				q := store.ClaimQuery{Lanes: []batch.ServiceID{"orders"}, Limit: 1, Window: 1, TTL: time.Hour, Instance: "two"}
				_, err := s.st.Claim(s.Context(), q, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
				require.NoError(s, err)
				require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, store.Instance{ID: "2", Name: "two", Claims: 1, Version: "v1"}))
				s.countNow()
				s.exec(`UPDATE dltbatch_texts SET begun_at = begun_at - 120000000, changed_at = changed_at - 120000000 WHERE kind = 'instance'`) // two minutes without a word
			},
			mendInConsole: func(p *person) {
				p.checkWords("No instance runs.", "Instance two has gone, and left 1 batch under way.", "a running instance asks the ledger about them", "start it again")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "instances"), "Instance two has gone, and left 1 batch under way.")
			},
		},
		{
			name: "wrong credentials", stage: closed(memory.Misconfigured),
			mendInConsole: func(p *person) {
				p.checkWords("Nothing is posted: the ledger refuses this client.", "Correct the credentials or the address")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "instances"), "Nothing is posted: the ledger refuses this client.")
			},
		},
		{
			name: "a queue that grows faster than it leaves",
			stage: func(s *stagedConsole) {
				slow := func(batch.Attempt) memory.Fault { return memory.Fault{Latency: 500 * time.Millisecond} }
				s.runInstance("one", faultyLedger(true, slow), dltbatch.Options{})
				for n := range 5 {
					for i := range 20 {
						s.add(newBatch("orders", batch.ID(fmt.Sprintf("b%d-%d", n, i))))
					}
					s.countNow()
				}
				s.waitUntil("a row with rates", func() bool {
					i := s.stats().Instances
					return len(i) > 0 && len(i[0].Flows) > 0
				})
				for n := range 5 { // the instance has counted meanwhile
					for i := range 60 {
						s.add(newBatch("orders", batch.ID(fmt.Sprintf("c%d-%d", n, i))))
					}
					s.countNow()
				}
			},
			mendInConsole: func(p *person) {
				p.checkWords("The queue grows faster than it leaves", "become final", "if submit time or finality are long, the ledger is slow")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "status"), "The queue grows faster than it leaves.")
			},
		},
		{
			name: "instances that disagree", isMendedHere: true,
			stage: func(s *stagedConsole) {
				busy := func(quiet time.Duration) *memory.Ledger {
					t := memory.Unforgiving(0)
					t.ResendHarmlessFor, t.PressureScope = quiet, 0
					return memory.New(&memory.Options{Traits: &t, Fault: faultAlways(memory.Busy)})
				}
				s.add(newBatch("orders", "b1"), newBatch("orders", "b2"))
				for n, quiet := range []time.Duration{time.Minute, time.Hour} {
					stop := s.runInstance(fmt.Sprint("i", n), busy(quiet), dltbatch.Options{})
					s.waitUntil("settings on record", func() bool {
						names, err := texts.Serve(s.Context(), s.st, []texts.Served{{Service: "orders"}})
						require.NoError(s, err)
						kept, err := texts.Read(s.Context(), s.st, store.TextTraits, names[0])
						require.NoError(s, err)
						return kept.Body != "" && (n == 0 || hasDisagreement(kept.Body))
					})
					stop()
				}
			},
			mendInConsole: func(p *person) {
				p.checkWords("The instances disagree about the settings of a ledger.")
				p.click("the settings of its lane")
				p.checkWords("The instances disagree")
				p.typeInto("agree-reason", ticketReason)
				p.typeInto("agree-confirm", "agree")
				p.pressButton("Agree on the settings")
			},
			mendByCommands: func(p *person) {
				require.Contains(p, p.command("", "settings", "orders"), "other")
				p.command("agree", "agree", "orders", "--reason", ticketReason)
			},
			checkMended: func(p *person) {
				kept, err := texts.Read(p.Context(), p.st, store.TextTraits, "memory")
				require.NoError(p, err)
				require.False(p, hasDisagreement(kept.Body), kept.Body)
				require.Contains(p, kept.Body, ticketReason)
			},
		},
	}
}

// An operator who is called looks at the first page, and mends the incident with at most three
// clicks and one typed word, or with three commands; or finds the cause, and what to do elsewhere,
// with at most two clicks.
func TestIncidents(t *testing.T) {
	v, err := chromedp.CallBrowser(chrome.ctx, browser.GetVersion, cdp.Empty{})
	require.NoError(t, err)
	t.Log(v.Product)
	type row struct {
		name, clicks, clicked, commands, commanded string
	}
	var table []row
	for _, in := range incidents() {
		t.Run(in.name, func(t *testing.T) {
			r := row{name: in.name}
			t.Run("console", func(t *testing.T) {
				s := newStagedConsole(t)
				in.stage(s)
				p := s.newPerson()
				p.open("")
				in.mendInConsole(p)
				took := time.Since(p.calledAt)
				if in.checkMended != nil {
					in.checkMended(p)
				}
				assert.LessOrEqual(t, p.clicks, maxSteps(in.isMendedHere))
				r.clicks, r.clicked = fmt.Sprint(p.clicks), fmt.Sprintf("%.1f", took.Seconds())
			})
			t.Run("commands", func(t *testing.T) {
				_, err := commandPath()
				require.NoError(t, err)
				s := newStagedConsole(t)
				in.stage(s)
				p := &person{stagedConsole: s, calledAt: time.Now()}
				in.mendByCommands(p)
				took := time.Since(p.calledAt)
				if in.checkMended != nil {
					in.checkMended(p)
				}
				assert.LessOrEqual(t, p.commands, maxSteps(in.isMendedHere))
				r.commands, r.commanded = fmt.Sprint(p.commands), fmt.Sprintf("%.1f", took.Seconds())
			})
			table = append(table, r)
		})
	}
	for _, r := range table {
		t.Logf("| %s | %s | %s | %s | %s |", r.name, r.clicks, r.clicked, r.commands, r.commanded)
	}
}

func maxSteps(here bool) int {
	if here {
		return 3
	}
	return 2
}
