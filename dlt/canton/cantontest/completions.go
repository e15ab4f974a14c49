package cantontest

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// completionsJSON is CompletionStreamRequest (docs/ledgers/canton.md#completions).
type completionsJSON struct {
	UserID  string   `json:"userId"`
	Parties []string `json:"parties"`
	Begin   int64    `json:"beginExclusive"`
}

// completionReader reads the completions of a user and parties.
type completionReader struct {
	participant     *Participant
	user            string
	parties         []string
	afterOffset     int64
	sinceCheckpoint int // how many completions came since the last checkpoint
}

// openCompletions checks a request for completions, and returns a reader of them. The caller must
// not hold the lock.
func (p *Participant) openCompletions(r *http.Request, doc completionsJSON) (*completionReader, *answer) {
	refuse := func(x refusalError) (*completionReader, *answer) {
		a := x.answer()
		return nil, &a
	}
	user, refused := p.userOf(r, doc.UserID, doc.Parties, false)
	if refused != nil {
		return nil, refused
	}
	if len(doc.Parties) == 0 {
		return refuse(refusalError{id: "MISSING_FIELD", cause: "The submitted command is missing a mandatory field: parties"})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	switch {
	case doc.Begin < p.prunedUpTo:
		return refuse(refusalError{id: "PARTICIPANT_PRUNED_DATA_ACCESSED", cause: "Command completions request precedes pruned offset",
			context: map[string]string{"earliest_offset": strconv.FormatInt(p.prunedUpTo, 10)}})
	case doc.Begin > p.ledgerEnd:
		return refuse(refusalError{id: "OFFSET_AFTER_LEDGER_END", cause: "Begin offset is after ledger end"})
	}
	return &completionReader{participant: p, user: user, parties: doc.Parties, afterOffset: doc.Begin}, nil
}

// next returns new elements, at most limit of them (0 means no limit), and a channel that is
// closed when there may be more. due is the latest time for that.
func (r *completionReader) next(limit int) (out []any, changed chan struct{}, due time.Time) {
	p := r.participant
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	i, _ := slices.BinarySearchFunc(p.completionLog, r.afterOffset, func(x completionRecord, after int64) int {
		if x.offset <= after {
			return -1
		}
		return 1
	})
	full := func() bool { return limit > 0 && len(out) >= limit }
	for _, x := range p.completionLog[i:] {
		if full() {
			break
		}
		r.afterOffset = x.offset
		if x.user != r.user || !slices.ContainsFunc(x.actAs, func(a string) bool { return slices.Contains(r.parties, a) }) {
			continue
		}
		out = append(out, encodeElement("Completion", x.doc))
		if r.sinceCheckpoint++; p.options.CheckpointEvery > 0 && r.sinceCheckpoint >= p.options.CheckpointEvery && !full() {
			r.sinceCheckpoint = 0
			out = append(out, encodeCheckpoint(x.offset))
		}
	}
	due, _ = p.nextDue()
	return out, p.changed, due
}

func encodeElement(kind string, value any) any {
	return map[string]any{"completionResponse": map[string]any{kind: map[string]any{"value": value}}}
}

func encodeCheckpoint(offset int64) any {
	return encodeElement("OffsetCheckpoint", map[string]any{"offset": offset, "synchronizerTimes": []any{
		map[string]any{"synchronizerId": "sim::1220", "recordTime": time.Now().UTC().Format(time.RFC3339Nano)},
	}})
}

// serveCompletions serves the list. It waits until there are limit elements, or nothing new has
// come for the idle time.
func (p *Participant) serveCompletions(w http.ResponseWriter, r *http.Request) {
	var doc completionsJSON
	refused := p.readBody(r, &doc)
	p.mu.Lock()
	f := p.drawFault(RequestPoint{Operation: OpCompletions})
	p.mu.Unlock()
	if !p.pause(r, f.Delay) {
		simnode.Reset(w)
		return
	}
	var from *completionReader
	if refused == nil {
		from, refused = p.openCompletions(r, doc)
	}
	if refused != nil {
		p.send(w, r, *refused, f)
		return
	}
	p.send(w, r, p.readList(r, from, f.SlowRead), f)
}

func (p *Participant) readList(r *http.Request, from *completionReader, slow time.Duration) answer {
	query := r.URL.Query()
	limit, bounded := p.options.ListLimit+1, false
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 && n <= p.options.ListLimit {
		limit, bounded = n, true // a limit above the participant's own is ignored
	}
	idle := p.options.ListWait
	if ms, err := strconv.Atoi(query.Get("stream_idle_timeout_ms")); err == nil && ms >= 0 {
		idle = time.Duration(ms) * time.Millisecond
	}
	out := []any{}
	if !p.pause(r, min(slow, idle)) || (slow > 0 && slow >= idle) {
		return jsonAnswer(http.StatusOK, out)
	}
	patience := time.NewTimer(idle)
	defer patience.Stop()
	for {
		more, changed, due := from.next(limit - len(out))
		if out = append(out, more...); len(out) >= limit {
			break
		}
		if len(more) > 0 {
			patience.Reset(idle)
		}
		if !p.waitForMore(r, changed, due, patience.C) {
			break
		}
	}
	if !bounded && len(out) > p.options.ListLimit {
		return refusalError{id: "JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED", cause: "The number of matching elements is greater than the node limit"}.answer()
	}
	return jsonAnswer(http.StatusOK, out)
}

// waitForMore waits until there may be something new. It returns false when idle fires, or the
// client has left.
func (p *Participant) waitForMore(r *http.Request, changed <-chan struct{}, due time.Time, idle <-chan time.Time) bool {
	var soon <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		soon = t.C
	}
	select {
	case <-changed:
		return true
	case <-soon:
		return true
	case <-idle:
	case <-r.Context().Done():
	case <-p.closed:
	}
	return false
}
