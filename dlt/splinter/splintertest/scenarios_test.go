package splintertest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// rootRecorder compares the state roots of the record with those of this network: two must be
// equal here if and only if they are equal in the record.
func rootRecorder(p *transcriptReplay, s batch.ServiceID) func(recorded string) {
	known := map[string]string{}
	return func(recorded string) {
		p.Helper()
		ask := httptest.NewRequestWithContext(p.Context(), http.MethodGet, servicePath(s)+"/state_root", nil)
		ask.Header.Set("Authorization", adminAuthorization)
		r := serveInProcess(p.network, s, ask)
		require.Equal(p, http.StatusOK, r.status)
		if there, is := known[recorded]; is {
			assert.Equal(p, there, r.body, "the root of the record is the same again")
		}
		for other, body := range known {
			if other != recorded {
				assert.NotEqual(p, body, r.body, "the root of the record is another one")
			}
		}
		known[recorded] = r.body
	}
}

var loggedText = regexp.MustCompile(`log:? "([^"]*)"`)

func duplicatesScenario(p *transcriptReplay) {
	const registry = "dup-OCR53NQEJVVM3CBAFBY5HN5HTL"
	s := p.network.Service(0)
	root := rootRecorder(p, s)
	create, same := buildBatch(p, newTransaction(splintertest.Create(registry, 1))), buildBatch(p, newTransaction(splintertest.Create(registry, 1)))
	appends := map[string]batch.Batch{}
	for _, name := range []string{"one", "two", "three", "four"} {
		appends[name] = buildBatch(p, newTransaction(splintertest.Inc("log", 1)))
	}
	step := func(label string, b batch.Batch, sees bool) {
		p.Helper()
		p.postBatches(label, b)
		if sees {
			p.compareStatusesSeen()
		}
		p.getStatuses("status at the end", b)
		root(strings.Fields(p.nextNote("state root after"))[3])
	}
	logs := func(note string) {
		p.Helper()
		m := loggedText.FindStringSubmatch(note)
		require.NotNil(p, m, note)
		assert.EqualValues(p, strings.Count(m[1], ";"), p.network.State(s)["log"], note)
	}
	step("create registry, first", create, true)
	step("create registry, the same bytes again", create, true)
	step("create registry of the same name", same, true)
	step("append one", appends["one"], true)
	step("append two", appends["two"], true)
	logs(p.nextNote("log"))
	step("append one, the same bytes again", appends["one"], true)
	logs(p.nextNote("log"))
	step("append three, new", appends["three"], true)
	logs(p.nextNote("log"))
	step("append one, the same bytes a third time", appends["one"], true)
	logs(p.nextNote("log"))
	step("append four, new", appends["four"], true)
	logs(p.nextNote("log"))
	off := 0
	for range 22 {
		time.Sleep(2 * time.Second)
		note := p.nextNote("after ")
		logs(note)
		have := fmt.Sprintf("one %s four %s", p.network.Status(s, appends["one"].ID), p.network.Status(s, appends["four"].ID))
		if !strings.Contains(note, have) {
			off++
		}
	}
	assert.LessOrEqual(p, off, 1, "the change of words, to two seconds")
	_, divided := p.network.Divided(s)
	assert.True(p, divided)
}

func idempotentPostsScenario(p *transcriptReplay) {
	s := p.network.Service(0)
	root := rootRecorder(p, s)
	p.postBatches("create registry", buildBatch(p, newTransaction(splintertest.Create("reg", 1))))
	p.compareStatusesSeen()
	update, next := buildBatch(p, newTransaction(splintertest.Set("owners", 1))), incBatch(p)
	p.postBatches("update owners", update)
	p.compareStatusesSeen()
	root(strings.Fields(p.nextNote("root"))[1])
	p.postBatches("update owners, the same bytes again", update)
	p.compareStatusesSeen()
	root(strings.Fields(p.nextNote("root"))[1])
	p.postBatches("a new batch behind", next)
	posted := time.Now()
	for p.network.Status(s, next.ID) != "Committed" && time.Since(posted) < time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	assert.InDelta(p, 28.5, time.Since(posted).Seconds(), 2)
	require.Equal(p, fmt.Sprintf("again %s, new %s", p.network.Status(s, update.ID), p.network.Status(s, next.ID)), p.nextNote("after")[len("after 28.571778974s: "):])
	_, divided := p.network.Divided(s)
	assert.False(p, divided)
}

func floodScenario(p *transcriptReplay) {
	s := p.network.Service(0)
	took, refused := 0, 0
	var all []batch.Batch
	send := func(label string) bool {
		p.Helper()
		b := buildBatch(p, newTransaction(splintertest.Inc("log", 1)))
		if p.postBatches(label, b).Status != 202 {
			return false
		}
		all = append(all, b)
		return true
	}
	for i := range 45 {
		if send(fmt.Sprint("flood ", i)) {
			took++
		} else {
			refused++
		}
	}
	require.True(p, strings.HasPrefix(p.nextNote("accepted"), fmt.Sprintf("accepted %d, refused posts %d in", took, refused)))
	stopped := time.Now()
	for { // it tries every 0.2 s until the batch is accepted; the number of tries is not compared
		e, more := p.peekEntry()
		require.True(p, more)
		if e.Exchange == nil {
			break
		}
		if e.Exchange.Answer.Status == 202 {
			for p.network.QueueLen(s) >= 15 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		send("")
	}
	assert.InDelta(p, 20.9, time.Since(stopped).Seconds(), 3)
	count := func() (words map[string]int) {
		words = map[string]int{}
		for _, b := range all {
			words[p.network.Status(s, b.ID)]++
		}
		return words
	}
	note := p.nextNote("accepted again")
	assert.Contains(p, note, "Pending:15", note)
	assert.InDelta(p, 15, count()["Pending"], 1)
	assert.InDelta(p, 16, count()["Committed"], 1)
	p.compareStatusesSeen()
	time.Sleep(6 * time.Second)
	p.nextNote("all after")
	assert.InDelta(p, 20, count()["Committed"], 2)
	assert.EqualValues(p, count()["Committed"], p.network.State(s)["log"])
}

func poisonScenario(p *transcriptReplay, bad batch.Batch) {
	p.postBatches("before", incBatch(p))
	p.compareStatusesSeen()
	p.postBatches("the batch", bad)
	time.Sleep(450 * time.Millisecond)
	next := incBatch(p)
	asked, askedLine := p.nextExchange("status of it")
	p.nextNote("status took 4m59")
	posted, postedLine := p.nextExchange("a good batch behind it")
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.call(asked, askedLine, targetOf(asked, []batch.Batch{bad}), nil)
	}()
	p.call(posted, postedLine, posted.Request.Target, batchList(next))
	<-done
	p.nextNote("POST behind it took 4m59")
	p.watchStatuses(p.network.Service(0), next)
	p.compareStatusesSeen()
	require.True(p, strings.HasSuffix(p.nextNote("after 5m2"), fmt.Sprintf("it %s, next %s",
		p.network.Status(p.network.Service(0), bad.ID), p.network.Status(p.network.Service(0), next.ID))))
}

func trapScenario(p *transcriptReplay) {
	p.postBatches("before", incBatch(p))
	for range 3 {
		p.postBatches("prepare", incBatch(p))
		p.compareStatusesSeen()
	}
	p.postBatches("the batch trap", buildBatch(p, newTransaction(splintertest.Trap("x"))))
}

func halfInvalidBatchScenario(p *transcriptReplay) {
	a, b := p.network.Service(0), p.network.Service(1)
	x := incBatch(p)
	p.postBatches("x", x)
	time.Sleep(450 * time.Millisecond)
	p.nextNote("11:33:16")
	p.network.Kill(0)
	require.Contains(p, p.nextNote("; x at b"), ":"+p.network.Status(b, x.ID)+"]")
	time.Sleep(1200 * time.Millisecond)
	require.NoError(p, p.network.Start(0))
	require.Contains(p, p.nextNote("state at a"), fmt.Sprintf("x: a %s b %s", p.network.Status(a, x.ID), p.network.Status(b, x.ID)))
	assert.Empty(p, p.network.State(a))
	for i := range 3 {
		y := buildBatch(p, newTransaction(splintertest.Inc("log", 1)))
		p.postBatches(fmt.Sprint("another batch y", i), y)
		last := ""
		for e, more := p.peekEntry(); more && strings.HasPrefix(e.Note, fmt.Sprintf("y%d ", i)); e, more = p.peekEntry() {
			last = p.nextEntry().Note
		}
		time.Sleep(900 * time.Millisecond)
		require.True(p, strings.HasSuffix(last, ": "+p.network.Status(a, y.ID)), "%q: %s", last, p.network.Status(a, y.ID))
	}
	p.nextNote("state at a") // the state is "y1;y2;", and the peer is a moment behind
	assert.EqualValues(p, 2, p.network.State(a)["log"])
}

func severalTransactionsScenario(p *transcriptReplay) {
	setup := buildBatch(p, newTransaction(splintertest.Create("log", 1)))
	require.Equal(p, 202, postAuthorized(p, p.network.Service(0), setup).status)
	time.Sleep(time.Second)
	good := func() (payload []byte, address string) { return splintertest.Set("good", 1) }
	again := func() (payload []byte, address string) { return splintertest.Create("log", 1) }
	for _, row := range []struct {
		label string
		b     batch.Batch
	}{
		{"good, contract fails", buildBatch(p, newTransaction(good()), newTransaction(splintertest.Invalid("log")))},
		{"good, failing, good", buildBatch(p, newTransaction(good()), newTransaction(again()), newTransaction(good()))},
		{"failing, good", buildBatch(p, newTransaction(again()), newTransaction(good()))},
	} {
		p.postBatches(row.label, row.b)
		p.compareStatusesSeen()
		p.getStatuses("status", row.b)
	}
}

// postAuthorized makes a POST that the record does not have.
func postAuthorized(p *transcriptReplay, s batch.ServiceID, bs ...batch.Batch) *response {
	r := newRequest(p, s, batchList(bs...))
	r.Header.Set("Authorization", adminAuthorization)
	return serveInProcess(p.network, s, r)
}

func lateBatchScenario(p *transcriptReplay) {
	sick, healthy := p.network.Service(0), p.network.Services()[2]
	require.Equal(p, 202, postAuthorized(p, sick, buildBatch(p, newTransaction(splintertest.Trap("x")))).status)
	time.Sleep(95 * time.Second)
	// A question about the stalled service blocks every second connection.
	go postAuthorized(p, sick, incBatch(p))
	synctest.Wait()
	var given []batch.Batch
	for range 6 {
		b := incBatch(p)
		if p.postBatches("post ", b).Status == 0 {
			given = append(given, b)
		}
	}
	require.Len(p, given, 3)
	said := func(word string) {
		p.Helper()
		for _, b := range given {
			assert.Equal(p, word, p.network.Status(healthy, b.ID))
		}
	}
	p.nextNote("0s later")
	said("Unknown")
	begun := time.Now()
	for p.network.Status(healthy, given[0].ID) == "Unknown" && time.Since(begun) < 5*time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	assert.InDelta(p, 196, time.Since(begun).Seconds(), 5)
	require.Contains(p, p.nextNote("3m16s later"), "Committed")
	time.Sleep(2 * time.Second)
	p.nextNote("3m17s later")
	said("Committed")
}

func stallScenario(p *transcriptReplay) {
	sick, healthy := p.network.Service(0), p.network.Services()[2]
	require.Equal(p, 202, postAuthorized(p, sick, buildBatch(p, newTransaction(splintertest.Trap("x")))).status)
	time.Sleep(188 * time.Second)
	// The request that the record answers last was made first.
	var asked sync.WaitGroup
	for _, e := range p.entries {
		x := e.Exchange
		if x == nil || !strings.Contains(x.Label, "the dead service") {
			continue
		}
		body := batchList(incBatch(p))
		if x.Request.Method == http.MethodGet {
			body = nil
		}
		asked.Go(func() { p.call(x, e.Line, x.Request.Target, body) })
	}
	synctest.Wait()
	given := []batch.Batch{incBatch(p), incBatch(p)}
	for i, b := range given {
		p.postBatches(fmt.Sprint("to the healthy service ", i), b)
	}
	begun := time.Now()
	said := func() string {
		return p.network.Status(healthy, given[0].ID) + " " + p.network.Status(healthy, given[1].ID)
	}
	time.Sleep(24 * time.Second)
	assert.Contains(p, p.nextNote("24s after they were given up"), said())
	asked.Wait()
	for range 12 {
		require.Contains(p, p.nextEntry().Exchange.Label, "the dead service")
	}
	for strings.Contains(said(), "Unknown") && time.Since(begun) < 5*time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	assert.InDelta(p, 105, time.Since(begun).Seconds(), 5)
	require.Contains(p, p.nextNote("1m45s after"), "Committed")
	time.Sleep(2 * time.Second)
	assert.Contains(p, p.nextNote("1m46s after"), said())
}
