package monitor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

const (
	claimTTL     = time.Minute
	lateArrival  = 5 * time.Second
	grace        = 30 * time.Second
	resendQuiet  = 20 * time.Minute
	stuckAfter   = time.Hour
	pollInterval = time.Second
	firstPoll    = 10 * time.Millisecond
)

var rules = monitor.Rules{
	TTL: claimTTL, FirstPoll: firstPoll, PollInterval: pollInterval, StuckAfter: stuckAfter,
	Delay: func(_ batch.ServiceID, n int) time.Duration { return time.Duration(n) * time.Second },
}

var ledgerTraits = dlt.Traits{Name: "l", LateArrival: lateArrival, Grace: grace, ResendQuiet: resendQuiet, Settle: 10 * time.Minute}

func evidence(e dlt.Evidence) *dlt.Evidence { return &e }

func status(word batch.Reported) *batch.Status { return &batch.Status{ID: "b", Reported: word} }

// verdictWord returns a verdict as a word.
func verdictWord(v monitor.Verdict) string {
	switch {
	case v.Outcome != nil && v.Resolve:
		return "both"
	case v.Outcome != nil:
		return v.Outcome.Finding.String()
	case v.Resolve:
		return "resolve"
	}
	return "wait"
}

// unknownWord is a value that no client may return.
const unknownWord = batch.Reported(99)

// TestDecideEveryWordInEveryState is the simple half of docs/design.md#states-of-a-batch: each
// answer of the ledger about a batch, after the time of grace, in each state that the monitor
// owns. The ledger declares nothing harmless and gives no evidence.
func TestDecideEveryWordInEveryState(t *testing.T) {
	words := []batch.Reported{
		0, batch.ReportedUnknown, batch.ReportedPending, batch.ReportedValid, batch.ReportedInvalid,
		batch.ReportedCommitted, batch.ReportedFailed, batch.ReportedStalled, batch.ReportedVoid, unknownWord,
	}
	for state, want := range map[batch.State][]string{
		// Columns: no answer, unknown, pending, valid, invalid, committed, failed, stalled, void,
		// other
		batch.Submitting: {"wait", "undecidable", "is pending", "is valid", "is invalid", "is committed", "failed", "is pending", "is void", "wait"},
		batch.Pending:    {"wait", "undecidable", "wait", "is valid", "is invalid", "is committed", "failed", "wait", "is void", "wait"},
		batch.Valid:      {"wait", "undecidable", "is pending", "wait", "is invalid", "is committed", "failed", "is pending", "is void", "wait"},
		batch.Invalid:    {"wait", "settled", "is pending", "is valid", "settled", "is committed", "wait", "is pending", "settled", "wait"},
	} {
		for i, word := range words {
			f := store.InFlight{
				Ref: store.Ref{Key: batch.Key{ID: "b"}, Row: 3}, Version: 8, State: state, Attempt: 1, DoubtAttempt: 1,
				PostedAgo: 40 * time.Minute, Ended: true,
			}
			k := monitor.Known{Seen: time.Hour}
			if word != 0 {
				k.Status = status(word)
			}
			v := monitor.Decide(f, k, ledgerTraits, rules)
			assert.Equal(t, want[i], verdictWord(v), "%s, and the ledger says %s", state, word)
			if v.Outcome != nil {
				assert.Equal(t, f.Ref, v.Outcome.Ref)
				assert.Equal(t, int64(8), v.Outcome.Version, "fenced by what was read before the ledger was asked")
				assert.Equal(t, batch.ByMonitor, v.Outcome.By)
			}
		}
	}
}

// TestDecideNoTrace has the hard half of docs/design.md#doubt.
func TestDecideNoTrace(t *testing.T) {
	type change func(*store.InFlight, *monitor.Known, *dlt.Traits, *monitor.Rules)
	ripe := func(f *store.InFlight, k *monitor.Known, tr *dlt.Traits, r *monitor.Rules) {}
	harmless := func(left time.Duration) change {
		return func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { f.ResendLeft = left }
	}
	posted := func(ago time.Duration) change {
		return func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) {
			f.PostedAgo, f.Age = ago, max(0, ago)
		}
	}
	seen := func(d time.Duration) change {
		return func(_ *store.InFlight, k *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { k.Seen = d }
	}
	lives := func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { f.Ended = false }
	claimFor := func(d time.Duration) change {
		return func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { f.ClaimTTL = d }
	}
	state := func(s batch.State) change {
		return func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { f.State = s }
	}
	resends := func(n int) change {
		return func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { f.Resends = n }
	}
	shown := func(by, unknownTo string) change {
		return func(f *store.InFlight, k *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) {
			f.Seen, k.Status.Endpoint = by, unknownTo
		}
	}
	resolves := func(_ *store.InFlight, _ *monitor.Known, tr *dlt.Traits, _ *monitor.Rules) { tr.Resolves = true }
	found := func(e dlt.Evidence) change {
		return func(_ *store.InFlight, k *monitor.Known, tr *dlt.Traits, _ *monitor.Rules) {
			tr.Resolves, k.Evidence = true, evidence(e)
		}
	}
	refused := func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { f.Refused = true }
	spent := func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) {
		f.Spent, f.Budget = 3, batch.Budget{Attempts: 3}
	}
	undecided := func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) {
		f.Called, f.Undecided = true, true
	}
	assume := func(_ *store.InFlight, _ *monitor.Known, _ *dlt.Traits, r *monitor.Rules) {
		r.AssumeNotCommitted = true
	}
	reliant := func(f *store.InFlight, _ *monitor.Known, tr *dlt.Traits, r *monitor.Rules) {
		tr.KeepsOrder, r.Reliant = true, true
	}
	const window = claimTTL + lateArrival // the least ResendLeft for a resend
	ever := harmless(dlt.Forever)

	for name, c := range map[string]struct {
		change []change
		want   string
		next   time.Duration // time until the next question, in a wait; 0 is not checked
	}{
		"nothing is declared":                           {[]change{ripe}, "undecidable", 0},
		"harmless for ever":                             {[]change{ever}, "no trace", 0},
		"harmless for just long enough":                 {[]change{harmless(window)}, "no trace", 0},
		"harmless for a moment less":                    {[]change{harmless(window - 1)}, "undecidable", 0},
		"no longer harmless":                            {[]change{harmless(-time.Hour)}, "undecidable", 0},
		"harmless, pending":                             {[]change{ever, state(batch.Pending)}, "no trace", 0},
		"harmless, valid":                               {[]change{ever, state(batch.Valid)}, "no trace", 0},
		"may still arrive":                              {[]change{ever, posted(lateArrival - time.Millisecond)}, "wait", firstPoll},
		"may still arrive for long":                     {[]change{ever, posted(0)}, "wait", pollInterval},
		"may still arrive, and could be proved":         {[]change{resolves, posted(lateArrival - 1)}, "wait", firstPoll},
		"within the grace":                              {[]change{ever, posted(grace - 50*time.Millisecond)}, "wait", 50 * time.Millisecond},
		"after the grace":                               {[]change{ever, posted(grace)}, "no trace", 0},
		"within the grace, pending":                     {[]change{ever, state(batch.Pending), posted(grace - 1)}, "wait", firstPoll},
		"clock jumped: first sight":                     {[]change{resolves, seen(0)}, "wait", pollInterval},
		"clock jumped: own wait not over":               {[]change{resolves, seen(lateArrival - 20*time.Millisecond)}, "wait", 20 * time.Millisecond},
		"clock jumped: own wait over, not the grace":    {[]change{resolves, seen(lateArrival)}, "wait", 0},
		"clock jumped: own grace over":                  {[]change{resolves, seen(grace)}, "resolve", 0},
		"clock jumped: pending":                         {[]change{resolves, state(batch.Pending), seen(lateArrival - 20*time.Millisecond)}, "wait", 20 * time.Millisecond},
		"clock jumped: valid, within the grace":         {[]change{resolves, state(batch.Valid), seen(grace - 20*time.Millisecond)}, "wait", 20 * time.Millisecond},
		"first sight, and harmless for ever":            {[]change{ever, seen(0)}, "no trace", 0},
		"first sight, and harmless for long enough":     {[]change{harmless(window), seen(0)}, "no trace", 0},
		"clock stepped back: the window is over":        {[]change{harmless(window + time.Minute), posted(grace), seen(grace + time.Minute + 1)}, "undecidable", 0},
		"clock stepped back: the window is not over":    {[]change{harmless(window + time.Minute), posted(grace), seen(grace + time.Minute)}, "no trace", 0},
		"an Invalid from a clock that was ahead":        {[]change{state(batch.Invalid), withSettle(time.Hour)}, "settled", 0},
		"an Invalid from ahead, own wait not over":      {[]change{state(batch.Invalid), withSettle(time.Hour), seen(10*time.Minute - 20*time.Millisecond)}, "wait", 20 * time.Millisecond},
		"clock jumped: an Invalid that is forgotten":    {[]change{state(batch.Invalid), withSettle(-time.Hour), seen(10*time.Minute - 20*time.Millisecond)}, "wait", 20 * time.Millisecond},
		"a claim of another length, not over":           {[]change{resolves, lives, claimFor(time.Hour), seen(time.Hour + lateArrival - 20*time.Millisecond)}, "wait", 20 * time.Millisecond},
		"a claim of another length, over":               {[]change{resolves, lives, claimFor(time.Hour), seen(time.Hour + lateArrival), posted(time.Hour)}, "resolve", 0},
		"a claim shorter than the reader's, over":       {[]change{resolves, lives, claimFor(time.Second), seen(grace), posted(time.Hour)}, "resolve", 0},
		"a claim of unknown length, not over":           {[]change{resolves, lives, seen(claimTTL + lateArrival - 20*time.Millisecond)}, "wait", 20 * time.Millisecond},
		"clock stepped back":                            {[]change{ever, posted(-time.Hour)}, "wait", pollInterval},
		"second resend too soon":                        {[]change{ever, resends(1), posted(resendQuiet - 1)}, "wait", 0},
		"second resend after the quiet":                 {[]change{ever, resends(1), posted(resendQuiet)}, "no trace", 0},
		"first resend needs no quiet":                   {[]change{ever, resends(0), posted(grace)}, "no trace", 0},
		"second resend too soon, proof could be had":    {[]change{ever, resends(1), posted(grace), resolves}, "wait", 0},
		"to be proved":                                  {[]change{resolves}, "resolve", 0},
		"to be proved, once no longer harmless":         {[]change{resolves, harmless(window - 1)}, "resolve", 0},
		"harmless needs no proof":                       {[]change{resolves, ever}, "no trace", 0},
		"proved not committed":                          {[]change{found(dlt.NotCommitted)}, "not committed", 0},
		"proved committed":                              {[]change{found(dlt.Committed)}, "is committed", 0},
		"still in flight":                               {[]change{found(dlt.InFlight)}, "wait", 0},
		"still in flight for long":                      {[]change{found(dlt.InFlight), posted(stuckAfter + 1), seen(stuckAfter + 1)}, "undecidable", 0},
		"still in flight for long, and just seen":       {[]change{found(dlt.InFlight), posted(stuckAfter + 1), seen(stuckAfter)}, "undecidable", 0},
		"cannot tell":                                   {[]change{found(dlt.CannotTell)}, "undecidable", 0},
		"evidence of no known kind":                     {[]change{found(99)}, "undecidable", 0},
		"cannot tell, already told":                     {[]change{found(dlt.CannotTell), undecided}, "wait", pollInterval},
		"cannot tell, decided beforehand":               {[]change{found(dlt.CannotTell), assume}, "not committed", 0},
		"no evidence, decided beforehand":               {[]change{assume}, "not committed", 0},
		"in flight, decided beforehand":                 {[]change{found(dlt.InFlight), assume}, "wait", 0},
		"decided beforehand waits for late arrivals":    {[]change{assume, posted(lateArrival - 1)}, "wait", 0},
		"refused: harmless, but nothing is to be sent":  {[]change{ever, refused}, "undecidable", 0},
		"refused: to be proved":                         {[]change{ever, refused, resolves}, "resolve", 0},
		"refused: proved":                               {[]change{refused, found(dlt.NotCommitted)}, "not committed", 0},
		"exhausted: harmless, but no attempt is left":   {[]change{ever, spent}, "undecidable", 0},
		"exhausted: to be proved":                       {[]change{ever, spent, resolves}, "resolve", 0},
		"exhausted: proved, and over":                   {[]change{spent, found(dlt.NotCommitted)}, "not committed", 0},
		"an Invalid that is forgotten waits":            {[]change{ever, state(batch.Invalid), withSettle(300 * time.Millisecond)}, "wait", 300 * time.Millisecond},
		"an Invalid that is forgotten settles":          {[]change{ever, state(batch.Invalid), withSettle(0)}, "settled", 0},
		"second resend: shown, and forgotten":           {[]change{ever, resends(1), posted(grace), shown("node", "node")}, "no trace", 0},
		"shown, and forgotten within the grace":         {[]change{ever, resends(1), posted(grace - 1), shown("node", "node")}, "wait", firstPoll},
		"shown, and another has no trace":               {[]change{ever, resends(1), posted(resendQuiet - 1), shown("node", "other")}, "wait", 0},
		"shown, and nobody knows who has no trace":      {[]change{ever, resends(1), posted(resendQuiet - 1), shown("node", "")}, "wait", 0},
		"never shown, and it is known who has no trace": {[]change{ever, resends(1), posted(resendQuiet - 1), shown("", "node")}, "wait", 0},
		"others may follow: may still arrive":           {[]change{ever, reliant, state(batch.Pending), posted(0)}, "doubtful", firstPoll},
		"others may follow: within the grace":           {[]change{ever, reliant, state(batch.Valid), posted(grace - 50*time.Millisecond)}, "doubtful", 0},
		"others may follow: the grace is over":          {[]change{ever, reliant, state(batch.Pending)}, "no trace", 0},
		"others may follow: to be proved":               {[]change{resolves, reliant, state(batch.Pending)}, "doubtful", 0},
		"others may follow: second resend too soon":     {[]change{ever, reliant, state(batch.Pending), resends(1), posted(resendQuiet - 1)}, "doubtful", 0},
		"others may follow: in doubt already":           {[]change{ever, reliant, posted(0)}, "wait", firstPoll},
		"others may follow: in doubt, to be proved":     {[]change{resolves, reliant}, "resolve", 0},
		"others may follow: in doubt, second resend":    {[]change{ever, reliant, resends(1), posted(resendQuiet - 1)}, "wait", 0},
		"shown, forgotten, and not harmless":            {[]change{resends(1), shown("node", "node")}, "undecidable", 0},
		"shown, forgotten, and refused":                 {[]change{ever, refused, resolves, resends(1), shown("node", "node")}, "resolve", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := store.InFlight{
				Ref: store.Ref{Key: batch.Key{ID: "b"}}, Version: 8, State: batch.Submitting, Attempt: 2, DoubtAttempt: 2,
				PostedAgo: 10 * time.Minute, Ended: true,
			}
			k, tr, r := monitor.Known{Status: status(batch.ReportedUnknown), Seen: 10 * time.Minute}, ledgerTraits, rules
			for _, c := range c.change {
				c(&f, &k, &tr, &r)
			}
			v := monitor.Decide(f, k, tr, r)
			require.Equal(t, c.want, verdictWord(v))
			if c.next != 0 {
				assert.Equal(t, c.next, v.Next)
			}
			if v.Outcome != nil && v.Outcome.Finding == store.NotCommitted {
				over := f.Budget.Exhausted(f.Spent)
				assert.Equal(t, over, v.Outcome.Last)
				if over {
					assert.Equal(t, batch.KindExhausted, v.Outcome.Error.Kind)
				}
			}
			if v.Outcome != nil && v.Outcome.Finding == store.Undecidable {
				assert.NotEmpty(t, v.Outcome.Error.Message, "with its cause")
			}
		})
	}
}

// TestDecideADoubtThatOthersMayFollow: the doubt about an accepted batch starts no new attempt and
// spends nothing. It ends when the ledger shows the batch. If the strategy or the ledger does not
// let others follow, there is no such doubt.
func TestDecideADoubtThatOthersMayFollow(t *testing.T) {
	f, tr, r := dueRow(batch.Pending), ledgerTraits, rules
	f.PostedAgo = time.Second
	tr.KeepsOrder, r.Reliant = true, true
	unknown, pending := monitor.Known{Status: status(batch.ReportedUnknown)}, monitor.Known{Status: status(batch.ReportedPending)}
	v := monitor.Decide(f, unknown, tr, r)
	require.NotNil(t, v.Outcome)
	assert.Equal(t, store.Outcome{
		Ref: f.Ref, Version: f.Version, Was: f.Was, By: batch.ByMonitor, Finding: store.Doubtful, Check: v.Outcome.Check, Prepared: f.Prepared,
		StuckAfter: rules.StuckAfter,
	}, *v.Outcome)
	assert.Positive(t, v.Outcome.Check)
	assert.LessOrEqual(t, v.Outcome.Check, pollInterval)
	f.State = batch.Submitting
	assert.Equal(t, "is pending", verdictWord(monitor.Decide(f, pending, tr, r)))
	f.State = batch.Pending
	tr.KeepsOrder = false
	assert.Equal(t, "wait", verdictWord(monitor.Decide(f, unknown, tr, r)))
	tr.KeepsOrder, r.Reliant = true, false
	assert.Equal(t, "wait", verdictWord(monitor.Decide(f, unknown, tr, r)))
}

// The node that shows an attempt is recorded once, and only if that may matter: after a resend, on
// a ledger whose nodes ignore a resend that they remember.
func TestDecideKeepsWhoHasShownAResend(t *testing.T) {
	pending := batch.Status{ID: "b", Reported: batch.ReportedPending, Endpoint: "node"}
	for name, c := range map[string]struct {
		change func(*store.InFlight, *batch.Status, *dlt.Traits)
		want   string
		kept   string
	}{
		"resent":                    {func(*store.InFlight, *batch.Status, *dlt.Traits) {}, "is pending", "node"},
		"never resent":              {func(f *store.InFlight, _ *batch.Status, _ *dlt.Traits) { f.Resends = 0 }, "wait", ""},
		"kept already":              {func(f *store.InFlight, _ *batch.Status, _ *dlt.Traits) { f.Seen = "node" }, "wait", ""},
		"another was kept":          {func(f *store.InFlight, _ *batch.Status, _ *dlt.Traits) { f.Seen = "other" }, "wait", ""},
		"nobody knows who":          {func(_ *store.InFlight, s *batch.Status, _ *dlt.Traits) { s.Endpoint = "" }, "wait", ""},
		"no quiet is needed":        {func(_ *store.InFlight, _ *batch.Status, tr *dlt.Traits) { tr.ResendQuiet = 0 }, "wait", ""},
		"with a change of state":    {func(f *store.InFlight, _ *batch.Status, _ *dlt.Traits) { f.State = batch.Submitting }, "is pending", "node"},
		"a change of state, kept":   {func(f *store.InFlight, _ *batch.Status, _ *dlt.Traits) { f.State, f.Seen = batch.Submitting, "node" }, "is pending", ""},
		"executed, and not settled": {func(_ *store.InFlight, s *batch.Status, _ *dlt.Traits) { s.Reported = batch.ReportedValid }, "is valid", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, st, tr := dueRow(batch.Pending), pending, ledgerTraits
			f.Attempt, f.Resends = 2, 1
			c.change(&f, &st, &tr)
			v := monitor.Decide(f, monitor.Known{Status: &st}, tr, rules)
			require.Equal(t, c.want, verdictWord(v))
			if v.Outcome != nil {
				assert.Equal(t, c.kept, v.Outcome.Endpoint)
			}
		})
	}
}

// A stalled batch is sent again only once its last POST has arrived or never will, also on a
// ledger whose nodes need no quiet.
func TestDecideStalledWaitsForTheLastPost(t *testing.T) {
	f, tr := dueRow(batch.Pending), ledgerTraits
	f.ResendLeft, tr.ResendQuiet = dlt.Forever, 0
	k := monitor.Known{Status: status(batch.ReportedStalled)}
	f.PostedAgo = lateArrival - 1
	assert.Equal(t, "wait", verdictWord(monitor.Decide(f, k, tr, rules)))
	f.PostedAgo = lateArrival
	assert.Equal(t, store.NoTrace.String(), verdictWord(monitor.Decide(f, k, tr, rules)))
}

// An execution that was taken back is counted at once, and only once, and the second in a row
// halts the lane. So a node that is killed before the attempt is resolved hides nothing.
func TestDecideRollbacks(t *testing.T) {
	tr := ledgerTraits
	tr.Resolves, tr.Stale = true, time.Minute
	for name, c := range map[string]struct {
		state           batch.State
		reported        batch.Reported
		posted          time.Duration
		rollbacksBefore int
		wasCounted      bool
		isCounted       bool
		halts           bool
	}{
		"the first":               {batch.Valid, batch.ReportedValid, 2 * time.Minute, 0, false, true, false},
		"the second":              {batch.Valid, batch.ReportedValid, 2 * time.Minute, 1, false, true, true},
		"the second, not yet":     {batch.Valid, batch.ReportedValid, time.Minute, 1, false, false, false},
		"counted already":         {batch.Valid, batch.ReportedValid, 2 * time.Minute, 1, true, false, false},
		"forgotten meanwhile":     {batch.Valid, batch.ReportedUnknown, 2 * time.Minute, 1, false, false, false},
		"never seen to be valid":  {batch.Pending, batch.ReportedPending, 2 * time.Minute, 1, false, false, false},
		"valid only now":          {batch.Pending, batch.ReportedValid, 2 * time.Minute, 1, false, false, false},
		"in doubt, and not valid": {batch.Submitting, batch.ReportedUnknown, 2 * time.Minute, 1, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := dueRow(c.state)
			f.PostedAgo, f.Rollbacks, f.RolledBack = c.posted, c.rollbacksBefore, c.wasCounted
			k := monitor.Known{Status: status(c.reported), Seen: c.posted}
			check := func(o *store.Outcome) {
				assert.Equal(t, c.isCounted, o.RolledBack)
				assert.Equal(t, c.halts, o.Halt != "")
				if c.halts {
					assert.Contains(t, o.Halt, "the nodes of this circuit disagree")
				}
			}
			v := monitor.Decide(f, k, tr, rules)
			if c.isCounted {
				require.Equal(t, "is valid", verdictWord(v), "before anything is proved")
			}
			if v.Outcome != nil {
				check(v.Outcome)
			}
			k.Evidence = evidence(dlt.NotCommitted)
			v = monitor.Decide(f, k, tr, rules)
			require.Equal(t, "not committed", verdictWord(v))
			check(v.Outcome)
			k.Evidence, k.Seen = nil, 0 // the database's clock has jumped
			if v = monitor.Decide(f, k, tr, rules); v.Outcome != nil {
				assert.False(t, v.Outcome.RolledBack)
			}
		})
	}
}

// A batch that was executed, and about which no more evidence can be found, waits for a person
// within minutes, not after StuckAfter.
func TestDecideAnExecutionWithoutATrace(t *testing.T) {
	tr := ledgerTraits
	tr.Resolves, tr.Stale = true, time.Minute
	f := dueRow(batch.Valid)
	f.PostedAgo = 12 * time.Minute
	decide := func(word batch.Reported, e dlt.Evidence, seen time.Duration) string {
		return verdictWord(monitor.Decide(f, monitor.Known{Status: status(word), Evidence: evidence(e), Seen: seen}, tr, rules))
	}
	assert.Equal(t, "undecidable", decide(batch.ReportedValid, dlt.CannotTell, 12*time.Minute))
	assert.Equal(t, "wait", decide(batch.ReportedValid, dlt.CannotTell, 2*time.Minute), "a process that has just started sees for itself first")
	assert.Equal(t, "undecidable", decide(batch.ReportedValid, dlt.CannotTell, 2*time.Minute+1))
	assert.Equal(t, "wait", decide(batch.ReportedValid, dlt.InFlight, 12*time.Minute), "more will be found out")
	f.State = batch.Pending
	assert.Equal(t, "wait", decide(batch.ReportedPending, dlt.CannotTell, 12*time.Minute), "it is in a queue, as far as anybody knows")
	f.State, f.Called, f.Undecided = batch.Valid, true, true
	assert.Equal(t, "wait", decide(batch.ReportedValid, dlt.CannotTell, 12*time.Minute), "once")
	r := rules
	r.AssumeNotCommitted = true
	f.Called, f.Undecided = false, false
	v := monitor.Decide(f, monitor.Known{Status: status(batch.ReportedValid), Evidence: evidence(dlt.CannotTell), Seen: time.Hour}, tr, r)
	assert.Equal(t, "undecidable", verdictWord(v), "the node still shows it")
}

func withSettle(d time.Duration) func(*store.InFlight, *monitor.Known, *dlt.Traits, *monitor.Rules) {
	return func(f *store.InFlight, _ *monitor.Known, _ *dlt.Traits, _ *monitor.Rules) { f.SettleLeft = d }
}

func TestDecideInvalid(t *testing.T) {
	receipts := []batch.Receipt{{TransactionID: "t1", Message: "no funds"}}
	st := &batch.Status{ID: "b", Reported: batch.ReportedInvalid, Attempt: 2, Receipts: receipts}
	f := store.InFlight{Version: 8, State: batch.Pending, Attempt: 2, PostedAgo: time.Minute, Ended: true}
	v := monitor.Decide(f, monitor.Known{Status: st}, ledgerTraits, rules)
	require.Equal(t, "is invalid", verdictWord(v))
	assert.Equal(t, ledgerTraits.Settle, v.Outcome.Settle, "decision 13")
	assert.Equal(t, receipts, v.Outcome.Receipts)
	assert.Equal(t, &batch.SubmissionError{Kind: batch.KindInvalid, Message: "no funds"}, v.Outcome.Error)
	assert.Equal(t, 2, v.Outcome.Attempt)

	st = &batch.Status{ID: "b", Reported: batch.ReportedInvalid, Message: "too late"}
	v = monitor.Decide(f, monitor.Known{Status: st}, ledgerTraits, rules)
	assert.Equal(t, "too late", v.Outcome.Error.Message)

	// After a requeue an INVALID counts only when Settle has passed since the new POST.
	f.Requeued = true
	f.PostedAgo = ledgerTraits.Settle - 70*time.Millisecond
	k := monitor.Known{Status: st, Seen: time.Hour}
	v = monitor.Decide(f, k, ledgerTraits, rules)
	assert.Equal(t, "wait", verdictWord(v))
	assert.Equal(t, 70*time.Millisecond, v.Next)
	f.PostedAgo = ledgerTraits.Settle
	assert.Equal(t, "is invalid", verdictWord(monitor.Decide(f, k, ledgerTraits, rules)))
	k.Seen = ledgerTraits.Settle - 70*time.Millisecond
	assert.Equal(t, 70*time.Millisecond, monitor.Decide(f, k, ledgerTraits, rules).Next, "by this process's clock, too")

	k.Seen = time.Hour
	f = store.InFlight{State: batch.Invalid, SettleLeft: 40 * time.Millisecond, Ended: true}
	v = monitor.Decide(f, k, ledgerTraits, rules)
	assert.Equal(t, "wait", verdictWord(v))
	assert.Equal(t, 40*time.Millisecond, v.Next)
}

// A row that is settled by this process's clock, because the database's was ahead at the verdict,
// is final whenever that is written, even if the row's time is ahead by less than Settle then.
func TestDecideSettledByItsOwnClock(t *testing.T) {
	now := time.Now()
	settle := ledgerTraits.Settle
	row := store.Row{State: batch.Invalid, Version: 3, Attempt: 1, SettlesAt: now.Add(settle + settle/2)}
	f := row.InFlight(store.Ref{}, batch.Budget{}, now)
	st := &batch.Status{ID: "b", Reported: batch.ReportedInvalid}
	v := monitor.Decide(f, monitor.Known{Status: st, Seen: settle}, ledgerTraits, rules)
	require.Equal(t, "settled", verdictWord(v))
	v.Outcome.Version = row.Version
	for _, later := range []time.Duration{0, settle / 2, settle - 1, settle, settle + settle/2, 2 * settle} {
		next, a := row.Apply(*v.Outcome, now.Add(later))
		require.NoError(t, a.Err, later)
		assert.True(t, next.Final(), later)
	}
}

// An INVALID that names no attempt may be about an earlier attempt while the last one may still
// arrive: scabbard's is about the last execution.
func TestDecideInvalidOfAnEarlierAttempt(t *testing.T) {
	st := &batch.Status{ID: "b", Reported: batch.ReportedInvalid}
	f := store.InFlight{Version: 8, State: batch.Submitting, Attempt: 2, DoubtAttempt: 2, Ended: true}
	decide := func() monitor.Verdict {
		return monitor.Decide(f, monitor.Known{Status: st, Seen: f.PostedAgo}, ledgerTraits, rules)
	}
	f.PostedAgo = lateArrival - 70*time.Millisecond
	v := decide()
	assert.Equal(t, "wait", verdictWord(v))
	assert.Equal(t, 70*time.Millisecond, v.Next)
	f.PostedAgo = lateArrival
	assert.Equal(t, "is invalid", verdictWord(decide()))
	f.Ended = false
	assert.Equal(t, "wait", verdictWord(decide()), "its claim may not be over by this process's clock")
	f.PostedAgo = claimTTL + lateArrival
	assert.Equal(t, "is invalid", verdictWord(decide()))
	f.PostedAgo, st.Attempt = 0, 2
	assert.Equal(t, "is invalid", verdictWord(decide()), "it names the last")
	f.Attempt, st.Attempt = 1, 0
	assert.Equal(t, "is invalid", verdictWord(decide()), "there is no other")
	f.Attempt, f.State = 2, batch.Pending
	assert.Equal(t, "is invalid", verdictWord(decide()), "the last was taken")
}

// An INVALID that names another attempt tells nothing about the present one, like "unknown". It
// ends a doubt about the attempt that it names, if no attempt was accepted since.
func TestDecideInvalidThatNamesAnotherAttempt(t *testing.T) {
	ever := func(f *store.InFlight) { f.ResendLeft = dlt.Forever }
	for name, c := range map[string]struct {
		state        batch.State
		namedAttempt int
		change       func(*store.InFlight)
		want         string
	}{
		"pending, and of the one before":             {batch.Pending, 2, nil, "undecidable"},
		"pending, and of the first":                  {batch.Pending, 1, nil, "undecidable"},
		"pending, and of one that is not known here": {batch.Pending, 4, nil, "undecidable"},
		"pending, and of this one":                   {batch.Pending, 3, func(f *store.InFlight) { f.DoubtAttempt, f.Resends = 3, 0 }, "is invalid"},
		"pending, and of the batch as a whole":       {batch.Pending, 0, nil, "is invalid"},
		"valid, and of the one before":               {batch.Valid, 2, nil, "undecidable"},
		"in doubt, and of the one before":            {batch.Submitting, 2, nil, "undecidable"},
		"in doubt, and may yet arrive":               {batch.Submitting, 2, func(f *store.InFlight) { f.PostedAgo = lateArrival - 1 }, "wait"},
		"pending, and just accepted":                 {batch.Pending, 2, func(f *store.InFlight) { f.PostedAgo = grace - 1 }, "wait"},
		"pending, and a resend is harmless":          {batch.Pending, 2, func(f *store.InFlight) { ever(f); f.PostedAgo = resendQuiet }, "no trace"},
		"pending, and a second resend must wait":     {batch.Pending, 2, func(f *store.InFlight) { ever(f); f.PostedAgo = resendQuiet - 1 }, "wait"},
		"decided against, and of the one before":     {batch.Invalid, 2, nil, "settled"},
		"in doubt, the last was refused":             {batch.Submitting, 2, func(f *store.InFlight) { f.Refused, f.Resends = true, 0 }, "is invalid"},
		"in doubt twice, the last was refused":       {batch.Submitting, 2, func(f *store.InFlight) { f.Refused = true }, "undecidable"},
	} {
		t.Run(name, func(t *testing.T) {
			f := store.InFlight{
				Version: 8, State: c.state, Attempt: 3, DoubtAttempt: 2, Resends: 1, PostedAgo: 30 * time.Minute, Ended: true,
			}
			if c.change != nil {
				c.change(&f)
			}
			k := monitor.Known{Status: &batch.Status{ID: "b", Reported: batch.ReportedInvalid, Attempt: c.namedAttempt}, Seen: time.Hour}
			assert.Equal(t, c.want, verdictWord(monitor.Decide(f, k, ledgerTraits, rules)))
		})
	}
}

// After a failure a batch is sent again after a pause that grows with its attempts and begins with
// the answer. Otherwise the second attempt follows at once, and before each later one there is a
// pause that does not grow and begins with the POST.
func TestDecideWhenToSendAgain(t *testing.T) {
	harmless, resolves := dlt.Traits{ResendHarmlessFor: dlt.Forever}, dlt.Traits{Resolves: true}
	for name, c := range map[string]struct {
		known     monitor.Known
		traits    dlt.Traits
		postedAgo time.Duration // ago
		want      time.Duration
	}{
		"failed":                {monitor.Known{Status: status(batch.ReportedFailed)}, harmless, 2 * time.Second, 3 * time.Second},
		"void":                  {monitor.Known{Status: status(batch.ReportedVoid)}, harmless, 400 * time.Millisecond, 600 * time.Millisecond},
		"void, long after":      {monitor.Known{Status: status(batch.ReportedVoid)}, harmless, time.Minute, 0},
		"void, clock put back":  {monitor.Known{Status: status(batch.ReportedVoid)}, harmless, -time.Minute, time.Second},
		"no trace":              {monitor.Known{Status: status(batch.ReportedUnknown)}, harmless, 400 * time.Millisecond, 600 * time.Millisecond},
		"stalled":               {monitor.Known{Status: status(batch.ReportedStalled)}, harmless, 2 * time.Second, 0},
		"shown not to be there": {monitor.Known{Evidence: evidence(dlt.NotCommitted)}, resolves, 400 * time.Millisecond, 600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			f := store.InFlight{State: batch.Pending, Attempt: 3, PostedAgo: c.postedAgo, ResendLeft: dlt.Forever, Ended: true}
			c.known.Seen = time.Minute
			v := monitor.Decide(f, c.known, c.traits, rules)
			require.NotNil(t, v.Outcome)
			assert.Equal(t, c.want, v.Outcome.Delay)
			f.Attempt = 1
			if first := monitor.Decide(f, c.known, c.traits, rules).Outcome; first.Finding != store.Failed {
				assert.Zero(t, first.Delay)
			}
		})
	}
}

// "Failed" counts for the attempt that it names.
func TestDecideFailed(t *testing.T) {
	unlimited, two, every := batch.Budget{}, batch.Budget{Attempts: 2}, batch.Budget{Attempts: 2, EveryTry: true}
	for name, c := range map[string]struct {
		namedAttempt int
		spent        int
		budget       batch.Budget
		want         string
		spends       bool
	}{
		"of no attempt in particular":           {0, 0, unlimited, "failed", true},
		"of this attempt":                       {3, 0, unlimited, "failed", true},
		"of an earlier attempt":                 {2, 0, unlimited, "wait", false},
		"of a later attempt":                    {4, 0, unlimited, "wait", false},
		"with budget left":                      {3, 0, two, "failed", true},
		"the last of the budget":                {3, 1, two, "refused", true},
		"every try: spent when it was accepted": {3, 1, every, "failed", false},
		"every try: used up":                    {3, 2, every, "refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := store.InFlight{State: batch.Pending, Attempt: 3, Spent: c.spent, Budget: c.budget, Failures: 4, PostedAgo: time.Minute}
			st := &batch.Status{Reported: batch.ReportedFailed, Attempt: c.namedAttempt, Message: "retryable"}
			v := monitor.Decide(f, monitor.Known{Status: st}, ledgerTraits, rules)
			require.Equal(t, c.want, verdictWord(v))
			if v.Outcome == nil {
				return
			}
			assert.Equal(t, c.spends, v.Outcome.Spend)
			assert.Equal(t, 3*time.Second, v.Outcome.Delay, "after the third attempt")
			want := &batch.SubmissionError{Kind: batch.KindFailed, Message: "retryable"}
			if c.want == "refused" {
				want = &batch.SubmissionError{Kind: batch.KindExhausted, Message: "budget of 2 attempts used up"}
			}
			assert.Equal(t, want, v.Outcome.Error)
		})
	}
}

// An attempt that was refused in doubt, for example because its budget is used up, is resolved
// when the ledger answers that it failed. An answer about a later attempt resolves no earlier one.
func TestDecideFailedResolvesItsOwnDoubt(t *testing.T) {
	f := store.InFlight{State: batch.Submitting, Attempt: 3, DoubtAttempt: 3, Refused: true, Ended: true, PostedAgo: time.Minute}
	k := monitor.Known{Status: &batch.Status{Reported: batch.ReportedFailed, Attempt: 3}, Seen: time.Minute}
	assert.Equal(t, "failed", verdictWord(monitor.Decide(f, k, ledgerTraits, rules)))
	f.DoubtAttempt = 2
	assert.Equal(t, "undecidable", verdictWord(monitor.Decide(f, k, ledgerTraits, rules)))
	tr := ledgerTraits
	tr.Resolves = true
	assert.Equal(t, "resolve", verdictWord(monitor.Decide(f, k, tr, rules)))
}

// A failure of an earlier attempt tells nothing about the present one, like "unknown", so an
// attempt that was lost on its way is not left to a person.
func TestDecideFailedThatNamesAnEarlierAttempt(t *testing.T) {
	f := store.InFlight{State: batch.Submitting, Attempt: 3, DoubtAttempt: 3, Resends: 1, Ended: true, PostedAgo: time.Minute}
	k := monitor.Known{Status: &batch.Status{Reported: batch.ReportedFailed, Attempt: 2}, Seen: time.Minute}
	tr := ledgerTraits
	tr.Resolves = true
	assert.Equal(t, "resolve", verdictWord(monitor.Decide(f, k, tr, rules)))
	k.Seen = lateArrival - 1
	assert.Equal(t, "wait", verdictWord(monitor.Decide(f, k, tr, rules)), "it may yet arrive")
	k.Seen, k.Status.Attempt = time.Minute, 4
	assert.Equal(t, "wait", verdictWord(monitor.Decide(f, k, tr, rules)), "of one that is not known here")
}

// A verdict that names no attempt may be about an earlier one while the last may still arrive.
// Before that time is over, neither "failed" nor "invalid" ends the batch.
func TestDecideVerdictOfAnEarlierAttempt(t *testing.T) {
	f := store.InFlight{State: batch.Submitting, Attempt: 2, DoubtAttempt: 2, Failures: 1, Ended: true, PostedAgo: time.Hour}
	tr := ledgerTraits
	tr.Resolves = true
	for said, then := range map[batch.Reported]string{batch.ReportedFailed: "failed", batch.ReportedInvalid: "is invalid"} {
		k := monitor.Known{Status: &batch.Status{Reported: said}, Seen: lateArrival - 1}
		assert.Equal(t, "wait", verdictWord(monitor.Decide(f, k, tr, rules)), "%s: attempt 2 may yet arrive", said)
		k.Seen = lateArrival
		assert.Equal(t, then, verdictWord(monitor.Decide(f, k, tr, rules)), "%s: it cannot arrive any more", said)
	}
}

// The text of a decision has the ledger's message about what the batch waits for.
func TestADecisionHasTheLedgersWords(t *testing.T) {
	for s, word := range map[batch.State]batch.Reported{batch.Pending: batch.ReportedPending, batch.Valid: batch.ReportedValid} {
		f := store.InFlight{State: s, PostedAgo: 2 * stuckAfter, Age: 2 * stuckAfter}
		st := status(word)
		st.Message = "nonce 17; it pays 20 gwei at most"
		v := monitor.Decide(f, monitor.Known{Status: st, Seen: 2 * stuckAfter}, ledgerTraits, rules)
		require.Equal(t, "undecidable", verdictWord(v))
		assert.Contains(t, v.Outcome.Error.Message, "goes on saying "+s.String()+": nonce 17; it pays 20 gwei at most")
		for evidence, says := range map[dlt.Evidence]string{dlt.InFlight: "goes on saying in flight: ", dlt.CannotTell: "the evidence does not tell: "} {
			v := monitor.Decide(f, monitor.Known{Status: st, Evidence: &evidence, Seen: 2 * stuckAfter}, ledgerTraits, rules)
			require.Equal(t, "undecidable", verdictWord(v))
			assert.Contains(t, v.Outcome.Error.Message, says+st.Message)
		}
	}
}

// A ledger that has accepted a batch and does not know it may only be slow, for example if the
// answer comes from another node than the one that accepted it. The next question comes as soon as
// if the ledger knew the batch.
func TestAnAcceptedBatchWithoutATraceIsAskedAboutSoon(t *testing.T) {
	for ago, want := range map[time.Duration]time.Duration{
		0: firstPoll, 25 * time.Millisecond: 25 * time.Millisecond, pollInterval: pollInterval, grace - 70*time.Millisecond: 70 * time.Millisecond,
	} {
		for _, s := range []batch.State{batch.Pending, batch.Valid} {
			f := store.InFlight{State: s, PostedAgo: ago, Ended: true}
			v := monitor.Decide(f, monitor.Known{Status: status(batch.ReportedUnknown), Seen: time.Hour}, ledgerTraits, rules)
			assert.Equal(t, "wait", verdictWord(v))
			assert.Equal(t, want, v.Next, "posted %s ago", ago)
		}
	}
	f := store.InFlight{State: batch.Submitting, PostedAgo: 25 * time.Millisecond, Ended: true}
	v := monitor.Decide(f, monitor.Known{Status: status(batch.ReportedUnknown), Seen: time.Hour}, ledgerTraits, rules)
	assert.Equal(t, pollInterval, v.Next, "a doubt has time")
}

func TestTheNextQuestionComesLaterEachTime(t *testing.T) {
	for ago, want := range map[time.Duration]time.Duration{
		0: firstPoll, firstPoll: firstPoll, 25 * time.Millisecond: 25 * time.Millisecond, pollInterval: pollInterval, time.Minute: pollInterval, -time.Hour: firstPoll,
	} {
		f := store.InFlight{State: batch.Pending, PostedAgo: ago}
		v := monitor.Decide(f, monitor.Known{Status: status(batch.ReportedPending)}, ledgerTraits, rules)
		assert.Equal(t, want, v.Next, "posted %s ago", ago)
	}
}
