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

// transcriptReplay makes requests that are equivalent to those of a transcript of a real node, in
// its order, and compares the answers with those of the transcript. An id of the transcript stands
// for a batch of the scenario: one that a POST is answered with, or one that is asked for after a
// refused POST.
type transcriptReplay struct {
	t           *testing.T
	node        *Node
	steps       []postStep // the POSTs of batches, in order
	stepsDone   int
	idsByPrefix map[string]string // our ids by the first ten digits of the transcript's
	lastBatches []*pb.Batch       // the batches of the last POST
	watchedID   string            // the id whose status was watched last
	differences []string
}

// postStep is one POST of batches, and what happens before it.
type postStep struct {
	doBefore func(n *Node)
	batches  []*pb.Batch
	body     []byte // replaces the list of batches
}

func postOf(bs ...*pb.Batch) postStep { return postStep{batches: bs} }

func postOfBytes(body []byte) postStep { return postStep{body: body} }

var (
	idInText     = regexp.MustCompile(`[0-9a-zA-Z]{10}~|[0-9a-f]{128}`)
	acceptedNote = regexp.MustCompile(`^after (\d+) accepted singles: HTTP 429`)
	trackedNote  = regexp.MustCompile(`^tracked \d+ polls, last (\w+)$`)
	lengthInNote = regexp.MustCompile(`HTTP (\d+), (?:body )?(\d+) bytes`)
)

// ourID returns our id for an id of the transcript. For an id that was in no POST, it is an id
// that no batch has.
func (r *transcriptReplay) ourID(theirs string) string {
	short, isShort := strings.CutSuffix(theirs, "~")
	if !isShort {
		short = theirs[:10]
	}
	if id, ok := r.idsByPrefix[strings.ToLower(short)]; ok {
		if short != strings.ToLower(short) {
			return strings.ToUpper(id)
		}
		return id
	}
	// An id that is asked for right after a refused POST is that of one of its batches.
	for _, b := range r.lastBatches {
		id := b.GetHeaderSignature()
		known := false
		for _, have := range r.idsByPrefix {
			known = known || have == id
		}
		if !known {
			r.idsByPrefix[strings.ToLower(short)] = id
			return id
		}
	}
	sum := sha512.Sum512([]byte(theirs))
	return hex.EncodeToString(sum[:])
}

func (r *transcriptReplay) translate(text string) string {
	return idInText.ReplaceAllStringFunc(text, r.ourID)
}

func (r *transcriptReplay) addDifference(line int, format string, args ...any) {
	r.differences = append(r.differences, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// compareExchange repeats the request of one exchange, and compares the answer.
func (r *transcriptReplay) compareExchange(line int, x *transcript.Exchange) {
	method, target, body := x.Request.Method, r.translate(x.Request.Target), []byte(nil)
	switch {
	case method == "" || target == "/batch_statuses" && method == http.MethodGet && x.Request.Size < 0: // a poll, of which the record has only the answer
		method, target = http.MethodGet, "/batch_statuses?id="+r.lastBatches[0].GetHeaderSignature()
	case method == http.MethodPost && target == "/batches" && x.Request.Body == "":
		require.Less(r.t, r.stepsDone, len(r.steps), "line %d: one more POST of batches than the scenario has", line)
		s := r.steps[r.stepsDone]
		r.stepsDone++
		if s.doBefore != nil {
			s.doBefore(r.node)
		}
		r.lastBatches = s.batches
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
			if i < len(r.lastBatches) {
				r.idsByPrefix[strings.ToLower(theirs[:10])] = strings.ToLower(r.lastBatches[i].GetHeaderSignature())
			}
		}
	}
	c := transcript.Comparer{Free: []string{"payload", "nonce", "value", "message"}}
	if got.Status >= 400 {
		c.Free = nil
	}
	for _, d := range c.Differences(x.Answer, got) {
		r.addDifference(line, "%s %s: %s", method, x.Label, d)
	}
	// An answer after more than half a second shows that the node has waited.
	if slow := x.Answer.After > 500*time.Millisecond; slow != (took > 500*time.Millisecond) {
		r.addDifference(line, "%s %s: took %v, the record has %v", method, x.Label, took, x.Answer.After)
	}
}

func (r *transcriptReplay) send(method, target, contentType string, body []byte) (transcript.Answer, time.Duration) {
	began := time.Now()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://x"+target, bytes.NewReader(body))
	require.NoError(r.t, err)
	req.Host = "127.0.0.1:8009"
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := r.node.Client().Do(req)
	require.NoError(r.t, err)
	got, err := transcript.Read(res)
	require.NoError(r.t, err)
	return got, time.Since(began)
}

// compareStatusSeen compares a status that the record saw with ours. The first status of a batch
// must be there at once; a later one at once, or two blocks later.
func (r *transcriptReplay) compareStatusSeen(line int, s *transcript.StatusSeen) {
	id := r.idsByPrefix[s.ID[:8]+r.idSuffix(s.ID)]
	first := r.watchedID != id
	r.watchedID = id
	for range 200 + s.After/(10*time.Millisecond) {
		if r.node.Status(batch.ID(id)) == s.Status {
			return
		}
		if first {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.addDifference(line, "status of %s: %s, the record has %s", s.ID, r.node.Status(batch.ID(id)), s.Status)
}

// idSuffix returns the two digits that complete the eight digits of an id to the ten of ids.
func (r *transcriptReplay) idSuffix(eight string) string {
	for theirs := range r.idsByPrefix {
		if strings.HasPrefix(theirs, eight) {
			return theirs[8:]
		}
	}
	return ""
}

// compareNote repeats what a remark says was done, if it says so.
func (r *transcriptReplay) compareNote(line int, text string) {
	if m := acceptedNote.FindStringSubmatch(text); m != nil {
		taken := 0
		for postInBubble(r.t, r.node, makeBatch(r.t, intkeyTx(Set("flood", 1)))).status == http.StatusAccepted {
			taken++
		}
		if want, _ := strconv.Atoi(m[1]); want != taken {
			r.addDifference(line, "%d were accepted, the record has %d", taken, want)
		}
	}
	if m := trackedNote.FindStringSubmatch(text); m != nil {
		time.Sleep(3 * time.Second)
		if got := r.node.Status(batch.ID(r.watchedID)); got != m[1] {
			r.addDifference(line, "after 3 s %s, the record has %s", got, m[1])
		}
	}
}

func replayFile(t *testing.T, sc transcriptScenario) {
	text, err := os.ReadFile(filepath.Join("testdata", "nodes", sc.file))
	require.NoError(t, err)
	entries, err := transcript.Parse(string(text))
	require.NoError(t, err)
	runInBubble(t, sc.options, func(t *testing.T, n *Node) {
		r := &transcriptReplay{t: t, node: n, idsByPrefix: map[string]string{}}
		r.steps = sc.steps(t, r)
		for _, e := range entries {
			if _, skip := sc.uncomparedLines[e.Line]; skip {
				continue
			}
			if hook := sc.actionsByLine[e.Line]; hook != nil {
				hook(r)
			}
			switch {
			case e.Exchange != nil:
				r.compareExchange(e.Line, e.Exchange)
			case e.Seen != nil:
				r.compareStatusSeen(e.Line, e.Seen)
			case e.Frame != nil:
				r.addDifference(e.Line, "a frame of a websocket")
			default:
				r.compareNote(e.Line, e.Note)
			}
		}
		require.Equal(t, len(r.steps), r.stepsDone, "POSTs of batches that the transcript does not have")
		require.Empty(t, r.differences, "%s", strings.Join(r.differences, "\n"))
	})
}

// compareLength compares the status and the length in a remark with those of an answer.
func (r *transcriptReplay) compareLength(line int, note string, got transcript.Answer) {
	m := lengthInNote.FindStringSubmatch(note)
	require.NotNil(r.t, m, note)
	if have := []string{strconv.Itoa(got.Status), strconv.Itoa(len(got.Body))}; have[0] != m[1] || have[1] != m[2] {
		r.addDifference(line, "HTTP %s, %s bytes, the record has %s", have[0], have[1], m[0])
	}
}
