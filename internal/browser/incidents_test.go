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
	stage func(s *stand)
	// here is true if the console and the command can mend the incident: with at most three clicks
	// and one typed word, or with three commands. Otherwise two clicks, or two commands, lead to
	// its cause, and the page says what to do elsewhere.
	here     bool
	console  func(p *person)
	commands func(p *person)
	mended   func(p *person)
}

func incidents() []incident {
	rejects := func(s *stand) {
		s.runs("one", faulty(true, first("b1", memory.Rejected)), dltbatch.Options{Policy: batch.PolicyHalt})
		s.add(one("orders", "b1"), one("orders", "b2"))
		s.until("a halt", func() bool {
			c, err := s.st.Control(s.Context(), batch.Only("orders"))
			require.NoError(s, err)
			return c.Closed()
		})
	}
	closed := func(k memory.FaultKind) func(s *stand) {
		return func(s *stand) {
			s.runs("one", faulty(true, always(k)), dltbatch.Options{})
			s.add(one("orders", "b1"))
			s.paused()
		}
	}
	doubt := func(s *stand, o dltbatch.Options, batches ...batch.Batch) {
		s.runs("one", faulty(false, func(a batch.Attempt) memory.Fault {
			if a.ID == "b1" && a.Number == 1 {
				return memory.Fault{Kind: memory.LostRequest}
			}
			return memory.Fault{}
		}), o)
		s.add(batches...)
		s.undecided("orders", "b1")
	}
	decided := func(p *person) {
		p.until("all of the lane", func() bool { return p.see("orders", "b1").Final() && p.see("orders", "b2").Final() })
		require.Equal(p, batch.Committed, p.see("orders", "b1").State)
		acts, err := p.st.History(p.Context(), batch.Key{Service: "orders", ID: "b1"})
		p.done(acts, err, batch.ActionDecide)
	}
	steered := func(action batch.Action) func(p *person) {
		return func(p *person) {
			acts, err := p.st.LaneHistory(p.Context(), batch.Only("orders"))
			p.done(acts, err, action)
		}
	}
	return []incident{
		{
			name: "a halted lane", stage: rejects, here: true, mended: steered(batch.ActionRelease),
			console: func(p *person) {
				p.reads("1 lane is halted until a person releases it.")
				p.click("Release the lane")
				p.types("release-reason", why)
				p.types("release-confirm", "release")
				p.press("Release")
				p.reads("Done: release by ada")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "release")
				p.command("release", "release", "orders", "--reason", why)
			},
		},
		{
			name: "a decision after a lost answer", here: true, mended: decided,
			stage: func(s *stand) { doubt(s, dltbatch.Options{}, one("orders", "b1"), one("orders", "b2")) },
			console: func(p *person) {
				p.reads("A person has to decide")
				p.click("Decide")
				p.choose("decide-not_executed_send_again")
				p.types("decide-reason", why)
				p.types("decide-confirm", "not_executed_send_again")
				p.press("Decide")
				p.reads("Done: decide by ada")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "decide b1")
				p.command("decide", "decide", "b1", "not_executed_send_again", "--reason", why)
			},
		},
		{
			name: "a ledger that is closed", stage: closed(memory.Unavailable),
			console: func(p *person) {
				p.reads("Nothing is posted: the ledger is not reached.", "Look whether the ledger runs and the network leads to it")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "instances"), "Nothing is posted: the ledger is not reached.")
			},
		},
		{
			name: "paused and forgotten", here: true, mended: steered(batch.ActionResume),
			stage: func(s *stand) {
				s.runs("one", faulty(true, always(memory.None)), dltbatch.Options{})
				_, _, err := s.st.Steer(s.Context(), store.Steering{Scope: batch.Only("orders"), Action: batch.ActionPause, By: bob})
				require.NoError(s, err)
				s.add(one("orders", "b1"))
			},
			console: func(p *person) {
				p.reads("By bob: for a moment")
				p.click(`Resume service "orders"`)
				p.types("resume-reason", why)
				p.press("Resume")
				p.reads("Done: resume by ada")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "bob")
				p.command("", "resume", "orders", "--reason", why)
			},
		},
		{
			name: "a poisonous order",
			stage: func(s *stand) {
				require.NoError(s, s.st.AddOrders(s.Context(), order.Order{ID: "poison", Party: "acme", Payload: []byte("x")}))
				done, err := s.st.FailOrders(s.Context(), []order.Verdict{{
					Ref: order.Ref{ID: "poison", Version: 1}, State: order.Quarantined,
					Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: "unknown asset"},
				}})
				require.NoError(s, err)
				require.Equal(s, []bool{true}, done)
				s.counted()
			},
			console: func(p *person) {
				p.reads("1 order was refused alone within a day.")
				p.click("Orders that were refused alone")
				p.reads("poison", "unknown asset", "their own content is at fault", "correct it where it was made")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "causes"), "dltbatch orders --state quarantined")
				require.Contains(p, p.command("", "orders", "--state", "quarantined"), "unknown asset")
			},
		},
		{
			name: "a lane behind a conflict", here: true, mended: decided,
			stage: func(s *stand) {
				doubt(s, dltbatch.Options{Strategy: queuer.Parallel(0)}, one("orders", "b1", "account"), one("orders", "b2", "account"), one("orders", "b3", "account"), one("orders", "b4", "other"))
				s.until("what conflicts with nothing", func() bool { return s.see("orders", "b4").Final() })
			},
			console: func(p *person) {
				p.reads("A person has to decide about 1 batch.", "wait behind others", "b1")
				p.click("Decide")
				p.choose("decide-not_executed_send_again")
				p.types("decide-reason", why)
				p.types("decide-confirm", "not_executed_send_again")
				p.press("Decide")
				p.reads("Done: decide by ada")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "explain", "b3"), "b1")
				p.command("decide", "decide", "b1", "not_executed_send_again", "--reason", why)
			},
		},
		{
			name: "an instance that died with claims",
			stage: func(s *stand) {
				s.runs("one", faulty(true, always(memory.None)), dltbatch.Options{})()
				s.add(one("orders", "b1"))
				q := store.ClaimQuery{Lanes: []batch.ServiceID{"orders"}, Limit: 1, Window: 1, TTL: time.Hour, Instance: "two"}
				_, err := s.st.Claim(s.Context(), q, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
				require.NoError(s, err)
				require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, store.Instance{ID: "2", Name: "two", Claims: 1, Version: "v1"}))
				s.counted()
				s.exec(`UPDATE dltbatch_texts SET begun_at = begun_at - 120000000, changed_at = changed_at - 120000000 WHERE kind = 'instance'`) // two minutes without a word
			},
			console: func(p *person) {
				p.reads("No instance runs.", "Instance two has gone, and left 1 batch under way.", "a running instance asks the ledger about them", "start it again")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "instances"), "Instance two has gone, and left 1 batch under way.")
			},
		},
		{
			name: "wrong credentials", stage: closed(memory.Misconfigured),
			console: func(p *person) {
				p.reads("Nothing is posted: the ledger refuses this client.", "Correct the credentials or the address")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "instances"), "Nothing is posted: the ledger refuses this client.")
			},
		},
		{
			name: "a queue that grows faster than it leaves",
			stage: func(s *stand) {
				slow := func(batch.Attempt) memory.Fault { return memory.Fault{Latency: 500 * time.Millisecond} }
				s.runs("one", faulty(true, slow), dltbatch.Options{})
				for n := range 5 {
					for i := range 20 {
						s.add(one("orders", batch.ID(fmt.Sprintf("b%d-%d", n, i))))
					}
					s.counted()
				}
				s.until("a row with rates", func() bool {
					i := s.stats().Instances
					return len(i) > 0 && len(i[0].Flows) > 0
				})
				for n := range 5 { // the instance has counted meanwhile
					for i := range 60 {
						s.add(one("orders", batch.ID(fmt.Sprintf("c%d-%d", n, i))))
					}
					s.counted()
				}
			},
			console: func(p *person) {
				p.reads("The queue grows faster than it leaves", "become final", "if submit time or finality are long, the ledger is slow")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "status"), "The queue grows faster than it leaves.")
			},
		},
		{
			name: "instances that disagree", here: true,
			stage: func(s *stand) {
				busy := func(quiet time.Duration) *memory.Ledger {
					t := memory.Unforgiving(0)
					t.ResendHarmlessFor, t.PressureScope = quiet, 0
					return memory.New(&memory.Options{Traits: &t, Fault: always(memory.Busy)})
				}
				s.add(one("orders", "b1"), one("orders", "b2"))
				for n, quiet := range []time.Duration{time.Minute, time.Hour} {
					stop := s.runs(fmt.Sprint("i", n), busy(quiet), dltbatch.Options{})
					s.until("settings on record", func() bool {
						names, err := texts.Serve(s.Context(), s.st, []texts.Served{{Service: "orders"}})
						require.NoError(s, err)
						kept, err := texts.Read(s.Context(), s.st, store.TextTraits, names[0])
						require.NoError(s, err)
						return kept.Body != "" && (n == 0 || disagree(kept.Body))
					})
					stop()
				}
			},
			console: func(p *person) {
				p.reads("The instances disagree about the settings of a ledger.")
				p.click("the settings of its lane")
				p.reads("The instances disagree")
				p.types("agree-reason", why)
				p.types("agree-confirm", "agree")
				p.press("Agree on the settings")
			},
			commands: func(p *person) {
				require.Contains(p, p.command("", "settings", "orders"), "other")
				p.command("agree", "agree", "orders", "--reason", why)
			},
			mended: func(p *person) {
				kept, err := texts.Read(p.Context(), p.st, store.TextTraits, "memory")
				require.NoError(p, err)
				require.False(p, disagree(kept.Body), kept.Body)
				require.Contains(p, kept.Body, why)
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
				s := newStand(t)
				in.stage(s)
				p := s.person()
				p.open("")
				in.console(p)
				took := time.Since(p.called)
				if in.mended != nil {
					in.mended(p)
				}
				assert.LessOrEqual(t, p.clicks, most(in.here))
				r.clicks, r.clicked = fmt.Sprint(p.clicks), fmt.Sprintf("%.1f", took.Seconds())
			})
			t.Run("commands", func(t *testing.T) {
				_, err := program()
				require.NoError(t, err)
				s := newStand(t)
				in.stage(s)
				p := &person{stand: s, called: time.Now()}
				in.commands(p)
				took := time.Since(p.called)
				if in.mended != nil {
					in.mended(p)
				}
				assert.LessOrEqual(t, p.commands, most(in.here))
				r.commands, r.commanded = fmt.Sprint(p.commands), fmt.Sprintf("%.1f", took.Seconds())
			})
			table = append(table, r)
		})
	}
	for _, r := range table {
		t.Logf("| %s | %s | %s | %s | %s |", r.name, r.clicks, r.clicked, r.commands, r.commanded)
	}
}

func most(here bool) int {
	if here {
		return 3
	}
	return 2
}
