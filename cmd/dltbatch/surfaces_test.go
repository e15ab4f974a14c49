package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// runInstance runs an instance until the test ends, on a ledger whose attempts have these faults.
func (s *testCommand) runInstance(name string, resolves bool, o dltbatch.Options, fault func(batch.Attempt) ledgermem.Fault) (r *dltbatch.Runner, stop func()) {
	s.Helper()
	return s.runInstanceOn(name, ledgerOf("memory", resolves, fault), o)
}

// ledgerOf returns a ledger whose attempts have these faults.
func ledgerOf(name string, resolves bool, fault func(batch.Attempt) ledgermem.Fault) dlt.Ledger {
	t := ledgermem.Unforgiving(0)
	t.Name, t.Resolves, t.PressureScope = name, resolves, dlt.ScopeEndpoint
	return ledgermem.New(&ledgermem.Options{Traits: &t, Fault: fault})
}

// runInstanceOn runs an instance on a ledger.
func (s *testCommand) runInstanceOn(name string, l dlt.Ledger, o dltbatch.Options) (r *dltbatch.Runner, stop func()) {
	s.Helper()
	o.Instance, o.RequestTimeout = name, 2*time.Second
	r, err := dltbatch.New(s.st, l, &o)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	over := false
	stop = func() {
		if cancel(); !over {
			over = true
			assert.NoError(s, <-ended)
		}
	}
	s.Cleanup(stop)
	return r, stop
}

func always(k ledgermem.FaultKind) func(batch.Attempt) ledgermem.Fault {
	return func(batch.Attempt) ledgermem.Fault { return ledgermem.Fault{Kind: k} }
}

// waitUntil waits until a condition is true that an instance is about to bring about.
func (s *testCommand) waitUntil(what string, is func() bool) {
	s.Helper()
	require.Eventually(s, is, time.Minute, 20*time.Millisecond, what)
}

// shownIncidents returns the incidents that every command and page must show.
func (s *testCommand) shownIncidents() operator.Situation {
	s.Helper()
	d, err := operator.New(s.st)
	require.NoError(s, err)
	now, err := d.Situation(s.Context(), operator.CausesQuery{})
	require.NoError(s, err)
	return now
}

func (s *testCommand) hasIncident(kind operator.IncidentKind) bool {
	return slices.ContainsFunc(s.shownIncidents().Incidents, func(i operator.Incident) bool { return i.Kind == kind })
}

var htmlTag = regexp.MustCompile(`(?s)<[^>]*>`)

// page returns the text of a page of the console.
func (s *testCommand) page(address string) string {
	s.Helper()
	c, err := console.New(s.st, nil)
	require.NoError(s, err)
	defer c.Close()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/"+address, nil))
	require.Equal(s, http.StatusOK, w.Code, address)
	return strings.Join(strings.Fields(html.UnescapeString(htmlTag.ReplaceAllString(w.Body.String(), " "))), " ")
}

// Each incident has one sentence, which is the same in causes, status, doctor, instances, explain,
// the console and the health of the instance. Once the incident is over, none of them shows it any
// more.
func TestSurfacesSayTheSame(t *testing.T) {
	rejected := func(a batch.Attempt) ledgermem.Fault {
		if a.ID == "b1" {
			return ledgermem.Fault{Kind: ledgermem.Rejected}
		}
		return ledgermem.Fault{}
	}
	lost := func(a batch.Attempt) ledgermem.Fault {
		if a.ID == "b1" && a.Number == 1 {
			return ledgermem.Fault{Kind: ledgermem.LostRequest}
		}
		return ledgermem.Fault{}
	}
	closed := func(k ledgermem.FaultKind) func(*testCommand) *dltbatch.Runner {
		return func(s *testCommand) *dltbatch.Runner {
			r, _ := s.runInstance("one", true, dltbatch.Options{}, always(k))
			s.add("s", "b1", "b2")
			s.waitUntil("a row that says so", func() bool {
				i := s.shownIncidents().Stats.Instances
				return len(i) > 0 && i[0].Paused && (k != ledgermem.Busy || i[0].Pauses[0].For >= 15*time.Second)
			})
			s.add("met by nobody", "b3") // the lane is new, and no instance claims its batch
			return r
		}
	}
	// oneOf runs an instance with two ledgers: one that accepts nothing, for all lanes but t, and
	// one that works.
	oneOf := func(s *testCommand) *dltbatch.Runner {
		router, err := dlt.NewRouter(
			dlt.Route{Ledger: ledgerOf("west", true, nil), Serves: func(s batch.ServiceID) bool { return s == "t" }},
			dlt.Route{Ledger: ledgerOf("east", true, always(ledgermem.Unavailable))})
		require.NoError(s, err)
		r, _ := s.runInstanceOn("one", router, dltbatch.Options{})
		s.add("t", "c1")
		s.add("s", "b1", "b2")
		s.waitUntil("a row that says so", func() bool {
			i := s.shownIncidents().Stats.Instances
			return len(i) > 0 && len(i[0].Pauses) > 0
		})
		s.add("met by nobody", "b3")
		s.add("t", "c2")
		s.waitUntil("the other ledger goes on", func() bool {
			rec, err := r.Get(s.Context(), batch.Key{Service: "t", ID: "c2"})
			return err == nil && rec.State == batch.Committed
		})
		return r
	}
	// orders runs an instance with an order that the ledger or the builder refuses, beside a valid
	// order.
	orders := func(refuses func(payload []byte) error, fault func(batch.Attempt) ledgermem.Fault) func(s *testCommand) *dltbatch.Runner {
		return func(s *testCommand) *dltbatch.Runner {
			build := func(_ context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
				b := batch.Batch{Service: party, ID: batch.ID(rand.Text())}
				for _, o := range orders {
					b.Payload = append(b.Payload, o.Payload...)
				}
				return b, refuses(b.Payload)
			}
			engine, err := autobatch.New(s.st.(order.Store), order.BuilderFunc(build), nil)
			require.NoError(s, err)
			r, _ := s.runInstance("one", true, dltbatch.Options{Observer: engine}, fault)
			ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
			ended := make(chan error, 1)
			go func() { ended <- engine.Run(ctx) }()
			s.Cleanup(func() { cancel(); assert.NoError(s, <-ended) })
			require.NoError(s, engine.Add(ctx,
				order.Order{ID: "good", Party: "s", Payload: []byte("good")}, order.Order{ID: "bad", Party: "s", Payload: []byte("poison")}))
			for id, want := range map[order.ID]order.State{"good": order.Confirmed, "bad": order.Quarantined} {
				rec, err := engine.Await(ctx, id)
				require.NoError(s, err)
				require.Equal(s, want, rec.State)
			}
			return r
		}
	}
	poison := func(a batch.Attempt) ledgermem.Fault {
		if strings.Contains(string(a.Payload), "poison") {
			return ledgermem.Fault{Kind: ledgermem.Rejected}
		}
		return ledgermem.Fault{}
	}
	takesAll := func([]byte) error { return nil }
	takesNoPoison := func(payload []byte) error {
		if strings.Contains(string(payload), "poison") {
			return &batch.InputError{Field: "Payload", Want: "no poison"}
		}
		return nil
	}
	for _, in := range []struct {
		name  string
		kind  operator.IncidentKind
		stage func(s *testCommand) *dltbatch.Runner // nil if no instance runs
		says  string
		// command mends the incident, or shows more. The test types it as it is shown, with a
		// reason, and with ruling in place of the list of rulings. shows is what the command
		// prints. ends is true if the command ends the incident, and then is a further command
		// that does. explains is what explain also says about b1.
		command, ruling, shows, then string
		endsByItself                 bool
		explains                     string
		timeless                     bool // the incident has no known beginning
	}{
		{
			name: "the ledger is not reached", kind: operator.IncidentLedgerDown, stage: closed(ledgermem.Unavailable),
			says: "Nothing is posted: the ledger is not reached.", command: "dltbatch instances", explains: "Nothing is posted: the ledger is not reached.",
		},
		{
			name: "the ledger refuses", kind: operator.IncidentLedgerRefuses, stage: closed(ledgermem.Misconfigured),
			says: "Nothing is posted: the ledger refuses this client.", command: "dltbatch instances", explains: "Nothing is posted: the ledger refuses this client.",
		},
		{
			name: "the ledger is busy", kind: operator.IncidentLedgerBusy, stage: closed(ledgermem.Busy),
			says: "Nothing is posted: the ledger is busy.", command: "dltbatch instances", explains: "Nothing is posted: the ledger is busy.",
		},
		{
			name: "one ledger of two is not reached", kind: operator.IncidentLedgerDown, stage: oneOf,
			says: "Nothing is posted to ledger east: the ledger is not reached.", command: "dltbatch instances",
			explains: "Nothing of its lane is posted: the ledger is not reached.",
		},
		{
			name: "a halted lane", kind: operator.IncidentHalted,
			stage: func(s *testCommand) *dltbatch.Runner {
				r, _ := s.runInstance("one", true, dltbatch.Options{Policy: batch.PolicyHalt}, rejected)
				s.add("s", "b1", "b2")
				return r
			},
			says: "1 lane is halted until a person releases it.", command: "dltbatch release s --reason WHY", endsByItself: true,
		},
		{
			name: "a decision", kind: operator.IncidentDecision,
			stage: func(s *testCommand) *dltbatch.Runner {
				r, _ := s.runInstance("one", false, dltbatch.Options{}, lost)
				s.add("s", "b1", "b2")
				return r
			},
			says: "A person has to decide about 1 batch.", command: "dltbatch decide b1 committed|not_executed_send_again|not_executed_reject --reason WHY",
			explains: "a person has to decide", ruling: "not_executed_send_again", endsByItself: true,
		},
		{
			name: "paused", kind: operator.IncidentPaused,
			stage: func(s *testCommand) *dltbatch.Runner {
				r, _ := s.runInstance("one", true, dltbatch.Options{}, always(ledgermem.None))
				s.runOK("pause", "s", "--reason", "for a moment", "--yes")
				s.add("s", "b1", "b2")
				return r
			},
			says: "1 lane is paused.", command: "dltbatch resume s --reason WHY", explains: "was paused by ada", endsByItself: true,
		},
		{
			name: "conflicts wait behind a decision", kind: operator.IncidentDecision,
			stage: func(s *testCommand) *dltbatch.Runner {
				r, _ := s.runInstance("one", false, dltbatch.Options{Strategy: queuer.Parallel(0)}, lost)
				for _, id := range []batch.ID{"b1", "b2", "b3"} {
					require.NoError(s, s.st.Add(s.Context(), batch.Batch{Service: "s", ID: id, Payload: []byte("x"), Footprint: batch.Footprint{Writes: []string{"account"}}}))
				}
				return r
			},
			says: "A person has to decide about 1 batch.", command: "dltbatch decide b1 committed|not_executed_send_again|not_executed_reject --reason WHY", explains: "a person has to decide", ruling: "committed", endsByItself: true,
		},
		{
			name: "an instance that died with claims", kind: operator.IncidentGone,
			stage: func(s *testCommand) *dltbatch.Runner {
				_, stop := s.runInstance("one", true, dltbatch.Options{}, always(ledgermem.None))
				s.recordServing("s")
				s.add("s", "b1")
				q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Hour, Instance: "two"}
				stop()
				_, err := s.st.Claim(s.Context(), q, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
				require.NoError(s, err)
				require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, store.Instance{ID: "2", Name: "two", Claims: 1, Version: "v1"}))
				s.exec(`UPDATE dltbatch_texts SET begun_at = begun_at - 120000000, changed_at = changed_at - 120000000 WHERE kind = 'instance'`)
				return nil
			},
			says: "Instance two has gone, and left 1 batch under way.", command: "dltbatch instances", explains: "No instance runs.",
		},
		{
			name: "a batch that was set aside", kind: operator.IncidentSetAside,
			stage: func(s *testCommand) *dltbatch.Runner {
				s.runInstance("one", true, dltbatch.Options{Policy: batch.PolicyQuarantine}, rejected)
				s.add("s", "b1", "b2")
				return nil // no batch waits for it, so the application need not know
			},
			says: "1 batch was set aside by the policy of a lane.", command: "dltbatch list --quarantined", explains: "set aside by its lane's policy",
			shows: "b1", then: "acquit b1 --reason WHY", endsByItself: true,
		},
		{
			name: "instances disagree", kind: operator.IncidentDisagree, timeless: true,
			stage: func(s *testCommand) *dltbatch.Runner {
				s.recordServing("s")
				other := relied.SettingsOf("s", dlt.Traits{Name: "ledger", ResendQuiet: time.Hour}, time.Hour, queuer.Serial())
				text, err := relied.Record{Settings: relied.SettingsOf("s", dlt.Traits{Name: "ledger"}, time.Minute, queuer.Serial()), Other: &other}.Text()
				require.NoError(s, err)
				_, err = texts.Put(s.Context(), s.st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: text})
				require.NoError(s, err)
				s.add("s", "b1")
				s.recordInstance(store.Instance{ID: "1", Name: "one", Version: "v1"})
				return nil
			},
			says: "The instances disagree about the settings of a ledger.", command: "dltbatch agree s --reason WHY", endsByItself: true,
		},
		{
			name: "the store warns", kind: operator.IncidentStore, timeless: true,
			stage: func(s *testCommand) *dltbatch.Runner {
				s.recordInstance(store.Instance{ID: "1", Name: "one", Version: "v1", Warnings: []string{"the log is large"}})
				s.recordInstance(store.Instance{ID: "2", Name: "two", Version: "v1", Warnings: []string{"the log is large"}})
				return nil
			},
			says: "The database needs care.", command: "dltbatch doctor",
		},
		{
			name: "a queue that grows", kind: operator.IncidentGrowing,
			stage: func(s *testCommand) *dltbatch.Runner {
				s.recordServing("s")
				s.recordInstance(store.Instance{ID: "1", Name: "one", Version: "v1", Flows: []store.Flow{{Took: 15 * time.Second, Final: 1}}})
				for n := range 6 {
					s.add("s", batch.ID(fmt.Sprint("b", n)))
					s.waitUntil("a count", func() bool {
						did, err := texts.Refresh(s.Context(), s.st, store.RefreshQuery{OlderThan: time.Microsecond})
						require.NoError(s, err)
						return did
					})
				}
				return nil
			},
			says: "The queue grows faster than it leaves.", command: "dltbatch status",
		},
		{
			name: "a poisonous order", kind: operator.IncidentOrderRefused, stage: orders(takesAll, poison),
			says: "1 order was refused alone within a day.", command: "dltbatch orders --state quarantined", shows: "bad",
		},
		{
			name: "an order of which no batch can be made", kind: operator.IncidentOrderRefused, stage: orders(takesNoPoison, always(ledgermem.None)),
			says: "1 order was refused alone within a day.", command: "dltbatch orders --state quarantined", shows: "bad",
		},
		{
			name: "nobody runs", kind: operator.IncidentNoInstance,
			stage: func(s *testCommand) *dltbatch.Runner {
				s.recordServing("s")
				s.add("s", "b1")
				return nil
			},
			says: "No instance runs.", command: "dltbatch instances", explains: "No instance runs.",
		},
	} {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			s := newFile(t)
			r := in.stage(s)
			s.waitUntil("the incident", func() bool { return s.hasIncident(in.kind) })
			if r != nil { // no instance is known until its row is written
				s.waitUntil("the instance's row", func() bool { return !s.hasIncident(operator.IncidentNoInstance) })
			}
			now := s.shownIncidents()
			i := slices.IndexFunc(now.Incidents, func(i operator.Incident) bool { return i.Kind == in.kind })
			found := now.Incidents[i]
			require.Equal(t, in.says, found.Text)
			assert.Equal(t, in.command, found.Command)
			if in.name != "nobody runs" && !in.timeless { // no instance ever ran
				assert.False(t, found.Since.IsZero(), "since when?")
			}
			count := 0
			for _, n := range now.Incidents {
				if n.Kind == in.kind {
					count++
				}
			}
			assert.Equal(t, 1, count, "one place: %+v", now.Incidents)

			surfaces := map[string]string{
				"causes": s.runOK("causes", "--refresh"), "status": s.runOK("status"), "doctor": s.runWithInput("", "doctor").out, "the first page": s.page(""),
			}
			if in.kind.OfInstances() {
				surfaces["instances"] = s.runOK("instances")
			}
			for name, text := range surfaces {
				assert.Contains(t, strings.Join(strings.Fields(text), " "), in.says, name)
				switch {
				case name == "the first page": // the page has forms
				case in.command == "dltbatch "+name:
					assert.NotContains(t, text, "  $ "+in.command+"\n", "it does not advise itself")
				default:
					assert.Contains(t, text, "  $ "+in.command+"\n", name)
				}
				for _, otherwise := range []string{"all well", "All well", "the next round of a running instance takes it", "no instance has met", "no instance has taken", "incidents  none"} {
					assert.NotContains(t, text, otherwise, "%s: %q", name, otherwise)
				}
				assert.Equal(t, in.kind == operator.IncidentGrowing, strings.Contains(text, "start more instances"), name)
			}
			assert.Equal(t, exitLeft, s.runWithInput("", "doctor").code)
			if in.explains != "" {
				assert.Contains(t, s.runOK("explain", "b1"), in.explains)
				assert.Contains(t, s.page("batch?service=s&id=b1"), in.explains)
			}
			if strings.HasPrefix(in.says, "Nothing is posted") { // the incident is then also about a lane that no instance has met
				assert.Regexp(t, regexp.QuoteMeta(in.says)+"|"+regexp.QuoteMeta(in.explains), s.runOK("explain", "b3"), "met by nobody, or by a probe")
				assert.Equal(t, 3, found.Batches, "all that wait")
				assert.Empty(t, now.Moving)
				whole := strings.HasPrefix(in.says, "Nothing is posted:")
				assert.Equal(t, whole, now.State == operator.StateLedger)
				assert.Equal(t, whole, now.Stats.Instances[0].Paused)
				assert.Equal(t, whole, strings.Contains(s.runOK("instances"), "posts nothing for "))
				assert.Contains(t, s.page("instances"), "the ledger ")
			}
			if r != nil && in.kind != operator.IncidentPaused { // the application need not know that a person paused
				s.waitUntil("the instance's own verdict", func() bool {
					all, err := json.Marshal(r.Health().Attention(time.Now()))
					require.NoError(t, err)
					return strings.Contains(string(all), in.says)
				})
			}
			if got := s.runShownCommand(in.command, in.ruling); in.kind != operator.IncidentStore { // doctor says that a finding is left
				require.Equal(t, exitDone, got.code, got.err)
				assert.Contains(t, got.out, in.shows)
			}
			if in.then != "" {
				require.Equal(t, exitDone, s.runShownCommand("dltbatch "+in.then, "").code)
			}
			if !in.endsByItself {
				return
			}
			s.waitUntil("its end", func() bool { return !s.hasIncident(in.kind) })
			for name, text := range map[string]string{"causes": s.runOK("causes", "--refresh"), "status": s.runOK("status"), "doctor": s.runWithInput("", "doctor").out, "the first page": s.page("")} {
				assert.NotContains(t, text, in.says, name)
			}
		})
	}
}

// runShownCommand runs a command as it is shown: with a reason, with the given ruling in place of
// the list, and with --yes if the command asks.
func (s *testCommand) runShownCommand(command, ruling string) commandOutput {
	s.Helper()
	args := strings.Fields(command)[1:]
	for i, word := range args {
		switch {
		case word == "WHY":
			args[i] = "because"
			args = append(args, "--yes")
		case strings.Contains(word, "|"):
			args[i] = ruling
		}
	}
	return s.runWithInput("", args...)
}

// recordInstance writes the row of a running instance.
func (s *testCommand) recordInstance(i store.Instance) {
	s.Helper()
	require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, i))
}

// exec changes the database directly, for example to let time pass.
func (s *testCommand) exec(statement string) {
	s.Helper()
	db, err := sqliteopen.Open(s.dsn)
	require.NoError(s, err)
	defer db.Close()
	_, err = db.ExecContext(s.Context(), statement)
	require.NoError(s, err)
}
