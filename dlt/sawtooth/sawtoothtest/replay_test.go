package sawtoothtest

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
	"github.com/dltbatch/dltbatch/internal/transcript"
)

// replay makes requests that are equivalent to those of a transcript of a real node, in its order,
// and compares the answers with those of the transcript. An id of the transcript stands for a
// batch of the scenario: one that a POST is answered with, or one that is asked for after a
// refused POST.
type replay struct {
	t     *testing.T
	n     *Node
	steps []step // the POSTs of batches, in order
	done  int
	ids   map[string]string // our ids by the first ten digits of the transcript's
	last  []*pb.Batch       // the batches of the last POST
	seen  string            // the id whose status was watched last
	diffs []string
}

// step is one POST of batches, and what happens before it.
type step struct {
	before  func(n *Node)
	batches []*pb.Batch
	body    []byte // replaces the list of batches
}

func posts(bs ...*pb.Batch) step { return step{batches: bs} }

func raw(body []byte) step { return step{body: body} }

var (
	idInText  = regexp.MustCompile(`[0-9a-zA-Z]{10}~|[0-9a-f]{128}`)
	accepted  = regexp.MustCompile(`^after (\d+) accepted singles: HTTP 429`)
	tracked   = regexp.MustCompile(`^tracked \d+ polls, last (\w+)$`)
	httpBytes = regexp.MustCompile(`HTTP (\d+), (?:body )?(\d+) bytes`)
)

// ours returns our id for an id of the transcript. For an id that was in no POST, it is an id that
// no batch has.
func (r *replay) ours(theirs string) string {
	short, isShort := strings.CutSuffix(theirs, "~")
	if !isShort {
		short = theirs[:10]
	}
	if id, ok := r.ids[strings.ToLower(short)]; ok {
		if short != strings.ToLower(short) {
			return strings.ToUpper(id)
		}
		return id
	}
	// An id that is asked for right after a refused POST is that of one of its batches.
	for _, b := range r.last {
		id := b.GetHeaderSignature()
		known := false
		for _, have := range r.ids {
			known = known || have == id
		}
		if !known {
			r.ids[strings.ToLower(short)] = id
			return id
		}
	}
	sum := sha512.Sum512([]byte(theirs))
	return hex.EncodeToString(sum[:])
}

func (r *replay) translate(text string) string {
	return idInText.ReplaceAllStringFunc(text, r.ours)
}

func (r *replay) differ(line int, format string, args ...any) {
	r.diffs = append(r.diffs, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// exchange repeats the request of one exchange, and compares the answer.
func (r *replay) exchange(line int, x *transcript.Exchange) {
	method, target, body := x.Request.Method, r.translate(x.Request.Target), []byte(nil)
	switch {
	case method == "" || target == "/batch_statuses" && method == http.MethodGet && x.Request.Size < 0: // a poll, of which the record has only the answer
		method, target = http.MethodGet, "/batch_statuses?id="+r.last[0].GetHeaderSignature()
	case method == http.MethodPost && target == "/batches" && x.Request.Body == "":
		require.Less(r.t, r.done, len(r.steps), "line %d: one more POST of batches than the scenario has", line)
		s := r.steps[r.done]
		r.done++
		if s.before != nil {
			s.before(r.n)
		}
		r.last = s.batches
		if body = s.body; body == nil {
			body = marshal(r.t, &pb.BatchList{Batches: s.batches})
		}
	case x.Request.Body == "" && x.Request.Size > 0: // the body is one id as JSON
		body = []byte(`["` + hex.EncodeToString(make([]byte, 64)) + `"]`)
	default:
		body = []byte(r.translate(x.Request.Body))
	}
	got, took := r.send(method, target, x.Request.Header.Get("Content-Type"), body)
	if x.Answer.Status == http.StatusAccepted {
		for i, theirs := range idInText.FindAllString(x.Answer.Body, -1) {
			if i < len(r.last) {
				r.ids[strings.ToLower(theirs[:10])] = strings.ToLower(r.last[i].GetHeaderSignature())
			}
		}
	}
	c := transcript.Comparer{Free: []string{"payload", "nonce", "value", "message"}}
	if got.Status >= 400 {
		c.Free = nil
	}
	for _, d := range c.Differences(x.Answer, got) {
		r.differ(line, "%s %s: %s", method, x.Label, d)
	}
	// An answer after more than half a second shows that the node has waited.
	if slow := x.Answer.After > 500*time.Millisecond; slow != (took > 500*time.Millisecond) {
		r.differ(line, "%s %s: took %v, the record has %v", method, x.Label, took, x.Answer.After)
	}
}

func (r *replay) send(method, target, contentType string, body []byte) (transcript.Answer, time.Duration) {
	began := time.Now()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://x"+target, bytes.NewReader(body))
	require.NoError(r.t, err)
	req.Host = "127.0.0.1:8009"
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := r.n.Client().Do(req)
	require.NoError(r.t, err)
	got, err := transcript.Read(res)
	require.NoError(r.t, err)
	return got, time.Since(began)
}

// watch compares a status that the record saw with ours. The first status of a batch must be there
// at once; a later one at once, or two blocks later.
func (r *replay) watch(line int, s *transcript.StatusSeen) {
	id := r.ids[s.ID[:8]+r.suffix(s.ID)]
	first := r.seen != id
	r.seen = id
	for range 200 + s.After/(10*time.Millisecond) {
		if r.n.Status(batch.ID(id)) == s.Status {
			return
		}
		if first {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.differ(line, "status of %s: %s, the record has %s", s.ID, r.n.Status(batch.ID(id)), s.Status)
}

// suffix returns the two digits that complete the eight digits of an id to the ten of ids.
func (r *replay) suffix(eight string) string {
	for theirs := range r.ids {
		if strings.HasPrefix(theirs, eight) {
			return theirs[8:]
		}
	}
	return ""
}

// note repeats what a remark says was done, if it says so.
func (r *replay) note(line int, text string) {
	if m := accepted.FindStringSubmatch(text); m != nil {
		taken := 0
		for bubblePost(r.t, r.n, mk(r.t, call(Set("flood", 1)))).status == http.StatusAccepted {
			taken++
		}
		if want, _ := strconv.Atoi(m[1]); want != taken {
			r.differ(line, "%d were accepted, the record has %d", taken, want)
		}
	}
	if m := tracked.FindStringSubmatch(text); m != nil {
		time.Sleep(3 * time.Second)
		if got := r.n.Status(batch.ID(r.seen)); got != m[1] {
			r.differ(line, "after 3 s %s, the record has %s", got, m[1])
		}
	}
}

func replayFile(t *testing.T, sc scenario) {
	text, err := os.ReadFile(filepath.Join("testdata", "nodes", sc.file))
	require.NoError(t, err)
	entries, err := transcript.Parse(string(text))
	require.NoError(t, err)
	inBubble(t, sc.options, func(t *testing.T, n *Node) {
		r := &replay{t: t, n: n, ids: map[string]string{}}
		r.steps = sc.steps(t, r)
		for _, e := range entries {
			if _, skip := sc.notHeld[e.Line]; skip {
				continue
			}
			if hook := sc.at[e.Line]; hook != nil {
				hook(r)
			}
			switch {
			case e.Exchange != nil:
				r.exchange(e.Line, e.Exchange)
			case e.Seen != nil:
				r.watch(e.Line, e.Seen)
			case e.Frame != nil:
				r.differ(e.Line, "a frame of a websocket")
			default:
				r.note(e.Line, e.Note)
			}
		}
		require.Equal(t, len(r.steps), r.done, "POSTs of batches that the transcript does not have")
		require.Empty(t, r.diffs, "%s", strings.Join(r.diffs, "\n"))
	})
}

// sized compares the status and the length in a remark with those of an answer.
func (r *replay) sized(line int, note string, got transcript.Answer) {
	m := httpBytes.FindStringSubmatch(note)
	require.NotNil(r.t, m, note)
	if have := []string{strconv.Itoa(got.Status), strconv.Itoa(len(got.Body))}; have[0] != m[1] || have[1] != m[2] {
		r.differ(line, "HTTP %s, %s bytes, the record has %s", have[0], have[1], m[0])
	}
}
