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

// roots compares the state roots of the record with those of this network: two must be equal here
// if and only if they are equal in the record.
func roots(p *player, s batch.ServiceID) func(recorded string) {
	known := map[string]string{}
	return func(recorded string) {
		p.Helper()
		ask := httptest.NewRequestWithContext(p.Context(), http.MethodGet, path0(s)+"/state_root", nil)
		ask.Header.Set("Authorization", admin)
		r := serve(p.n, s, ask)
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

var logged = regexp.MustCompile(`log:? "([^"]*)"`)

func duplicates(p *player) {
	const registry = "dup-OCR53NQEJVVM3CBAFBY5HN5HTL"
	s := p.n.Service(0)
	root := roots(p, s)
	create, same := build(p, tx(splintertest.Create(registry, 1))), build(p, tx(splintertest.Create(registry, 1)))
	appends := map[string]batch.Batch{}
	for _, name := range []string{"one", "two", "three", "four"} {
		appends[name] = build(p, tx(splintertest.Inc("log", 1)))
	}
	step := func(label string, b batch.Batch, sees bool) {
		p.Helper()
		p.post(label, b)
		if sees {
			p.seen()
		}
		p.get("status at the end", b)
		root(strings.Fields(p.note("state root after"))[3])
	}
	logs := func(note string) {
		p.Helper()
		m := logged.FindStringSubmatch(note)
		require.NotNil(p, m, note)
		assert.EqualValues(p, strings.Count(m[1], ";"), p.n.State(s)["log"], note)
	}
	step("create registry, first", create, true)
	step("create registry, the same bytes again", create, true)
	step("create registry of the same name", same, true)
	step("append one", appends["one"], true)
	step("append two", appends["two"], true)
	logs(p.note("log"))
	step("append one, the same bytes again", appends["one"], true)
	logs(p.note("log"))
	step("append three, new", appends["three"], true)
	logs(p.note("log"))
	step("append one, the same bytes a third time", appends["one"], true)
	logs(p.note("log"))
	step("append four, new", appends["four"], true)
	logs(p.note("log"))
	off := 0
	for range 22 {
		time.Sleep(2 * time.Second)
		note := p.note("after ")
		logs(note)
		have := fmt.Sprintf("one %s four %s", p.n.Status(s, appends["one"].ID), p.n.Status(s, appends["four"].ID))
		if !strings.Contains(note, have) {
			off++
		}
	}
	assert.LessOrEqual(p, off, 1, "the change of words, to two seconds")
	_, divided := p.n.Divided(s)
	assert.True(p, divided)
}

func idempotent(p *player) {
	s := p.n.Service(0)
	root := roots(p, s)
	p.post("create registry", build(p, tx(splintertest.Create("reg", 1))))
	p.seen()
	update, next := build(p, tx(splintertest.Set("owners", 1))), inc(p)
	p.post("update owners", update)
	p.seen()
	root(strings.Fields(p.note("root"))[1])
	p.post("update owners, the same bytes again", update)
	p.seen()
	root(strings.Fields(p.note("root"))[1])
	p.post("a new batch behind", next)
	posted := time.Now()
	for p.n.Status(s, next.ID) != "Committed" && time.Since(posted) < time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	assert.InDelta(p, 28.5, time.Since(posted).Seconds(), 2)
	require.Equal(p, fmt.Sprintf("again %s, new %s", p.n.Status(s, update.ID), p.n.Status(s, next.ID)), p.note("after")[len("after 28.571778974s: "):])
	_, divided := p.n.Divided(s)
	assert.False(p, divided)
}

func flood(p *player) {
	s := p.n.Service(0)
	took, refused := 0, 0
	var all []batch.Batch
	send := func(label string) bool {
		p.Helper()
		b := build(p, tx(splintertest.Inc("log", 1)))
		if p.post(label, b).Status != 202 {
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
	require.True(p, strings.HasPrefix(p.note("accepted"), fmt.Sprintf("accepted %d, refused posts %d in", took, refused)))
	stopped := time.Now()
	for { // it tries every 0.2 s until the batch is accepted; the number of tries is not compared
		e, more := p.peek()
		require.True(p, more)
		if e.Exchange == nil {
			break
		}
		if e.Exchange.Answer.Status == 202 {
			for p.n.QueueLen(s) >= 15 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		send("")
	}
	assert.InDelta(p, 20.9, time.Since(stopped).Seconds(), 3)
	count := func() (words map[string]int) {
		words = map[string]int{}
		for _, b := range all {
			words[p.n.Status(s, b.ID)]++
		}
		return words
	}
	note := p.note("accepted again")
	assert.Contains(p, note, "Pending:15", note)
	assert.InDelta(p, 15, count()["Pending"], 1)
	assert.InDelta(p, 16, count()["Committed"], 1)
	p.seen()
	time.Sleep(6 * time.Second)
	p.note("all after")
	assert.InDelta(p, 20, count()["Committed"], 2)
	assert.EqualValues(p, count()["Committed"], p.n.State(s)["log"])
}

func poison(p *player, bad batch.Batch) {
	p.post("before", inc(p))
	p.seen()
	p.post("the batch", bad)
	time.Sleep(450 * time.Millisecond)
	next := inc(p)
	asked, askedLine := p.exchange("status of it")
	p.note("status took 4m59")
	posted, postedLine := p.exchange("a good batch behind it")
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.call(asked, askedLine, targetOf(asked, []batch.Batch{bad}), nil)
	}()
	p.call(posted, postedLine, posted.Request.Target, list(next))
	<-done
	p.note("POST behind it took 4m59")
	p.watch(p.n.Service(0), next)
	p.seen()
	require.True(p, strings.HasSuffix(p.note("after 5m2"), fmt.Sprintf("it %s, next %s",
		p.n.Status(p.n.Service(0), bad.ID), p.n.Status(p.n.Service(0), next.ID))))
}

func trap(p *player) {
	p.post("before", inc(p))
	for range 3 {
		p.post("prepare", inc(p))
		p.seen()
	}
	p.post("the batch trap", build(p, tx(splintertest.Trap("x"))))
}

func half(p *player) {
	a, b := p.n.Service(0), p.n.Service(1)
	x := inc(p)
	p.post("x", x)
	time.Sleep(450 * time.Millisecond)
	p.note("11:33:16")
	p.n.Kill(0)
	require.Contains(p, p.note("; x at b"), ":"+p.n.Status(b, x.ID)+"]")
	time.Sleep(1200 * time.Millisecond)
	require.NoError(p, p.n.Start(0))
	require.Contains(p, p.note("state at a"), fmt.Sprintf("x: a %s b %s", p.n.Status(a, x.ID), p.n.Status(b, x.ID)))
	assert.Empty(p, p.n.State(a))
	for i := range 3 {
		y := build(p, tx(splintertest.Inc("log", 1)))
		p.post(fmt.Sprint("another batch y", i), y)
		last := ""
		for e, more := p.peek(); more && strings.HasPrefix(e.Note, fmt.Sprintf("y%d ", i)); e, more = p.peek() {
			last = p.next().Note
		}
		time.Sleep(900 * time.Millisecond)
		require.True(p, strings.HasSuffix(last, ": "+p.n.Status(a, y.ID)), "%q: %s", last, p.n.Status(a, y.ID))
	}
	p.note("state at a") // the state is "y1;y2;", and the peer is a moment behind
	assert.EqualValues(p, 2, p.n.State(a)["log"])
}

func multi(p *player) {
	setup := build(p, tx(splintertest.Create("log", 1)))
	require.Equal(p, 202, authorized(p, p.n.Service(0), setup).status)
	time.Sleep(time.Second)
	good := func() (payload []byte, address string) { return splintertest.Set("good", 1) }
	again := func() (payload []byte, address string) { return splintertest.Create("log", 1) }
	for _, row := range []struct {
		label string
		b     batch.Batch
	}{
		{"good, contract fails", build(p, tx(good()), tx(splintertest.Invalid("log")))},
		{"good, failing, good", build(p, tx(good()), tx(again()), tx(good()))},
		{"failing, good", build(p, tx(again()), tx(good()))},
	} {
		p.post(row.label, row.b)
		p.seen()
		p.get("status", row.b)
	}
}

// authorized makes a POST that the record does not have.
func authorized(p *player, s batch.ServiceID, bs ...batch.Batch) *response {
	r := newRequest(p, s, list(bs...))
	r.Header.Set("Authorization", admin)
	return serve(p.n, s, r)
}

func late(p *player) {
	sick, healthy := p.n.Service(0), p.n.Services()[2]
	require.Equal(p, 202, authorized(p, sick, build(p, tx(splintertest.Trap("x")))).status)
	time.Sleep(95 * time.Second)
	// A question about the stalled service blocks every second connection.
	go authorized(p, sick, inc(p))
	synctest.Wait()
	var given []batch.Batch
	for range 6 {
		b := inc(p)
		if p.post("post ", b).Status == 0 {
			given = append(given, b)
		}
	}
	require.Len(p, given, 3)
	said := func(word string) {
		p.Helper()
		for _, b := range given {
			assert.Equal(p, word, p.n.Status(healthy, b.ID))
		}
	}
	p.note("0s later")
	said("Unknown")
	begun := time.Now()
	for p.n.Status(healthy, given[0].ID) == "Unknown" && time.Since(begun) < 5*time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	assert.InDelta(p, 196, time.Since(begun).Seconds(), 5)
	require.Contains(p, p.note("3m16s later"), "Committed")
	time.Sleep(2 * time.Second)
	p.note("3m17s later")
	said("Committed")
}

func stalled(p *player) {
	sick, healthy := p.n.Service(0), p.n.Services()[2]
	require.Equal(p, 202, authorized(p, sick, build(p, tx(splintertest.Trap("x")))).status)
	time.Sleep(188 * time.Second)
	// The request that the record answers last was made first.
	var asked sync.WaitGroup
	for _, e := range p.entries {
		x := e.Exchange
		if x == nil || !strings.Contains(x.Label, "the dead service") {
			continue
		}
		body := list(inc(p))
		if x.Request.Method == http.MethodGet {
			body = nil
		}
		asked.Go(func() { p.call(x, e.Line, x.Request.Target, body) })
	}
	synctest.Wait()
	given := []batch.Batch{inc(p), inc(p)}
	for i, b := range given {
		p.post(fmt.Sprint("to the healthy service ", i), b)
	}
	begun := time.Now()
	said := func() string {
		return p.n.Status(healthy, given[0].ID) + " " + p.n.Status(healthy, given[1].ID)
	}
	time.Sleep(24 * time.Second)
	assert.Contains(p, p.note("24s after they were given up"), said())
	asked.Wait()
	for range 12 {
		require.Contains(p, p.next().Exchange.Label, "the dead service")
	}
	for strings.Contains(said(), "Unknown") && time.Since(begun) < 5*time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	assert.InDelta(p, 105, time.Since(begun).Seconds(), 5)
	require.Contains(p, p.note("1m45s after"), "Committed")
	time.Sleep(2 * time.Second)
	assert.Contains(p, p.note("1m46s after"), said())
}
