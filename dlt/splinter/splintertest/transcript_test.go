package splintertest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/transcript"
)

// passedFiles is the entries of uncomparedNotes whose lines the scenarios have reached. The
// scenarios run one by one.
var passedFiles = map[string]bool{}

const adminAuthorization = "Bearer Cylinder:<jwt of the admin key>"

// transcriptReplay goes through a record of real nodes, and makes equivalent requests. Each line
// is compared by the scenario, or is in uncomparedNotes with the reason.
type transcriptReplay struct {
	*testing.T
	network       *splintertest.Network
	file          string
	entries       []transcript.Entry
	comparedCount int
	begunAt       time.Time // the start of the scenario, in virtual time
	firstTime     time.Time // the first time in the record

	watchedBatch struct {
		service batch.ServiceID
		id      batch.ID
	}
}

// runTranscript runs a scenario on a record, in virtual time, at the record's pace.
func runTranscript(t *testing.T, file string, o *splintertest.Options, scenario func(p *transcriptReplay)) {
	t.Helper()
	t.Run(file, func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join("testdata", "transcripts", file))
		require.NoError(t, err)
		entries, err := transcript.Parse(string(text))
		require.NoError(t, err)
		o.Authorize = func(header string, _ splintertest.Operation) bool { return header == adminAuthorization }
		runInVirtualTime(t, o, func(t *testing.T, n *splintertest.Network) {
			p := &transcriptReplay{T: t, network: n, file: file, entries: entries, begunAt: time.Now()}
			scenario(p)
			if e, more := p.peekEntry(); more {
				t.Errorf("line %d and what follows is not held: %v", e.Line, e)
			}
			t.Logf("%d lines held", p.comparedCount)
		})
	})
}

// peekEntry returns the next entry that is to be compared.
func (p *transcriptReplay) peekEntry() (transcript.Entry, bool) {
	for len(p.entries) > 0 {
		e := p.entries[0]
		why, not := uncomparedNotes[fmt.Sprintf("%s:%d", p.file, e.Line)]
		scene := e.Exchange == nil && e.Seen == nil && slices.ContainsFunc(scenarioNotes, func(s string) bool { return strings.HasPrefix(e.Note, s) })
		if !not && !scene {
			return e, true
		}
		if not {
			p.Logf("line %d is not held: %s", e.Line, why)
			passedFiles[fmt.Sprintf("%s:%d", p.file, e.Line)] = true
		}
		p.entries = p.entries[1:]
	}
	return transcript.Entry{}, false
}

func (p *transcriptReplay) nextEntry() transcript.Entry {
	p.Helper()
	e, more := p.peekEntry()
	require.True(p, more, "the record is at its end")
	p.entries = p.entries[1:]
	p.comparedCount++
	return e
}

// nextNote returns the next remark, which must begin with prefix.
func (p *transcriptReplay) nextNote(prefix string) string {
	p.Helper()
	e := p.nextEntry()
	require.True(p, strings.HasPrefix(e.Note, prefix), "line %d: %q", e.Line, e.Note)
	return e.Note
}

// nextExchange returns the next exchange, at its time in the record.
func (p *transcriptReplay) nextExchange(label string) (*transcript.Exchange, int) {
	p.Helper()
	e := p.nextEntry()
	require.NotNil(p, e.Exchange, "line %d: %v", e.Line, e)
	require.True(p, strings.HasPrefix(e.Exchange.Label, label), "line %d is about %q, not %q", e.Line, e.Exchange.Label, label)
	return e.Exchange, e.Line
}

// keepPace sleeps until the time of an exchange in the record, which has whole seconds.
func (p *transcriptReplay) keepPace(x *transcript.Exchange) {
	at, err := http.ParseTime(x.Answer.Header.Get("Date"))
	if err != nil {
		return
	}
	if p.firstTime.IsZero() {
		p.firstTime, p.begunAt = at, time.Now()
	}
	if wait := at.Sub(p.firstTime) - time.Since(p.begunAt); wait > time.Second {
		time.Sleep(wait)
	}
}

// call makes a request like that of the record, and compares the answers. It first waits as long
// as the record's request took, if that was less than a second.
func (p *transcriptReplay) call(x *transcript.Exchange, line int, target string, body []byte) transcript.Answer {
	p.Helper()
	begun := time.Now()
	r := httptest.NewRequestWithContext(p.Context(), x.Request.Method, target, bytes.NewReader(body))
	for k, v := range x.Request.Header {
		if k != "Host" {
			r.Header[k] = v
		}
	}
	if x.Request.Authorization != "(none)" {
		r.Header.Set("Authorization", x.Request.Authorization)
	}
	w := httptest.NewRecorder()
	s := strings.Split(target, "/")
	node := 0
	if len(s) > 3 {
		node = max(0, p.network.NodeOf(batch.ServiceID(s[2]+"::"+s[3])))
	}
	if x.Failure != "" { // the recorded client gave up
		ctx, cancel := context.WithTimeout(p.Context(), x.Answer.After)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.network.Handler(node).ServeHTTP(w, r.WithContext(ctx))
		}()
		select {
		case <-done:
			p.Errorf("line %d: an answer, where the record has none", line)
		case <-ctx.Done():
		}
		return transcript.Answer{}
	}
	if x.Answer.After < time.Second {
		time.Sleep(x.Answer.After)
	}
	p.network.Handler(node).ServeHTTP(w, r)
	assert.InDelta(p, x.Answer.After.Seconds(), time.Since(begun).Seconds(), 1.5, "line %d took", line)
	got, err := transcript.Read(w.Result())
	require.NoError(p, err)
	record := x.Answer
	record.Body = withSortedStatuses(record.Body)
	sorted := got
	sorted.Body = withSortedStatuses(got.Body)
	c := transcript.Comparer{Free: []string{"secs_since_epoch", "nanos_since_epoch"}}
	for _, d := range c.Differences(record, sorted) {
		p.Errorf("%s:%d (%s): %s", p.file, line, x.Label, d)
	}
	if want, have := record.Header.Get("Access-Control-Allow-Credentials"), got.Header.Get("Access-Control-Allow-Credentials"); want != have {
		p.Errorf("%s:%d (%s): Access-Control-Allow-Credentials: got %q, the record has %q", p.file, line, x.Label, have, want)
	}
	return got
}

// withSortedStatuses sorts an array of statuses, which may come in any order.
func withSortedStatuses(body string) string {
	var list []struct {
		ID     string          `json:"id"`
		Status json.RawMessage `json:"status"`
		Stamp  json.RawMessage `json:"timestamp"`
	}
	if json.Unmarshal([]byte(body), &list) != nil {
		return body
	}
	slices.SortFunc(list, func(a, b struct {
		ID     string          `json:"id"`
		Status json.RawMessage `json:"status"`
		Stamp  json.RawMessage `json:"timestamp"`
	}) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), bytes.Compare(a.Status, b.Status))
	})
	out, err := json.Marshal(list)
	if err != nil {
		return body
	}
	return string(out)
}

// postBatches makes a POST of batches to the service in the record's target.
func (p *transcriptReplay) postBatches(label string, bs ...batch.Batch) transcript.Answer {
	p.Helper()
	x, line := p.nextExchange(label)
	p.keepPace(x)
	p.watchStatuses(serviceOf(x), bs...)
	return p.call(x, line, x.Request.Target, batchList(bs...))
}

// postBody makes a POST of any body to the service in the record's target.
func (p *transcriptReplay) postBody(label string, postBody []byte) transcript.Answer {
	p.Helper()
	x, line := p.nextExchange(label)
	if x.Request.Size >= 0 && x.Request.Size < 100 && !strings.Contains(label, "list") && !strings.Contains(label, "undecodable") {
		require.Len(p, postBody, x.Request.Size, "line %d", line)
	}
	return p.call(x, line, x.Request.Target, postBody)
}

// getStatuses makes a GET. With batches it asks for their statuses.
func (p *transcriptReplay) getStatuses(label string, bs ...batch.Batch) transcript.Answer {
	p.Helper()
	x, line := p.nextExchange(label)
	p.keepPace(x)
	return p.call(x, line, targetOf(x, bs), nil)
}

func targetOf(x *transcript.Exchange, bs []batch.Batch) string {
	path, _, _ := strings.Cut(x.Request.Target, "?")
	if len(bs) == 0 {
		return x.Request.Target
	}
	var ids []string
	for _, b := range bs {
		ids = append(ids, string(b.ID))
	}
	return path + "?ids=" + strings.Join(ids, ",")
}

func serviceOf(x *transcript.Exchange) batch.ServiceID {
	s := strings.Split(x.Request.Target, "/")
	return batch.ServiceID(s[2] + "::" + s[3])
}

func (p *transcriptReplay) watchStatuses(s batch.ServiceID, bs ...batch.Batch) {
	if len(bs) > 0 {
		p.watchedBatch.service, p.watchedBatch.id = s, bs[len(bs)-1].ID
	}
}

// compareStatusesSeen compares the statuses that the record saw of the last batch: the batch must
// go through the same statuses, in the same order, to the same end. It does not compare the times.
func (p *transcriptReplay) compareStatusesSeen() {
	p.Helper()
	var want []string
	for {
		e, more := p.peekEntry()
		if !more || e.Seen == nil {
			break
		}
		want = append(want, p.nextEntry().Seen.Status)
	}
	require.NotEmpty(p, want, "nobody watched")
	var got []string
	for range 200 {
		if w := p.network.Status(p.watchedBatch.service, p.watchedBatch.id); len(got) == 0 || got[len(got)-1] != w {
			got = append(got, w)
		}
		if got[len(got)-1] == want[len(want)-1] {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	at := 0
	for _, w := range got {
		if at < len(want) && want[at] == w {
			at++
		}
	}
	assert.Equal(p, len(want), at, "the record saw %v, this one is %v", want, got)
}
