package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tally counts the requests and batches of the fake ledger since its reset.
type tally struct {
	Posts    int64 `json:"posts"`
	Asks     int64 `json:"asks"`
	Batches  int64 `json:"batches"`  // different batches
	Twice    int64 `json:"twice"`    // batches that came again
	Breaches int64 `json:"breaches"` // batches that came out of turn in their lane
}

// answer is the fake ledger's answer about one batch.
type answer struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// The statuses of the fake ledger.
const (
	wordUnknown   = "UNKNOWN"
	wordPending   = "PENDING"
	wordCommitted = "COMMITTED"
)

// part is a part of the fake ledger's batches and lanes, under a lock of its own.
type part struct {
	mu       sync.Mutex
	accepted map[string]time.Time // by id
	next     map[uint32]uint32    // by lane: the place that is due in it
}

// fakeLedger takes batches, or lists of them, and commits each at once, or at the end of its
// block. It enforces no order, but counts batches that come out of turn.
type fakeLedger struct {
	parts [64]part
	block atomic.Int64 // length of a block; 0: there are none
	open  openBlock

	posts, asks, batches, twice, breaches atomic.Int64
	bodies                                sync.Pool
	streams                               streams
}

func newFakeLedger() *fakeLedger {
	l := &fakeLedger{bodies: sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}}
	l.reset()
	return l
}

// ServeHTTP implements http.Handler.
//
//	POST /batches        one batch
//	POST /lists          several, each after its length in four bytes
//	GET  /statuses?ids=  the batches' statuses; ids by comma
//	GET  /events         the id and lane of each batch as it is committed
//	POST /reset?block=   forgets everything, returns its tally, and makes blocks of that length
func (l *fakeLedger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /batches":
		l.serveBatches(w, r, false)
	case "POST /lists":
		l.serveBatches(w, r, true)
	case "GET /statuses":
		l.serveStatuses(w, r)
	case "GET /events":
		l.streams.ServeHTTP(w, r)
	case "POST /reset":
		block, err := time.ParseDuration(r.URL.Query().Get("block"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.block.Store(int64(block))
		writeJSON(w, http.StatusOK, l.reset())
	default:
		http.NotFound(w, r)
	}
}

func (l *fakeLedger) serveBatches(w http.ResponseWriter, r *http.Request, list bool) {
	body := l.bodies.Get().(*[]byte)
	defer l.bodies.Put(body)
	var err error
	if *body, err = appendAll((*body)[:0], r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.posts.Add(1)
	id, rest := "", *body
	for len(rest) > 0 {
		one := rest
		if rest = nil; list {
			n := int(binary.BigEndian.Uint32(one))
			one, rest = one[4:4+n], one[4+n:]
		}
		if id, err = l.take(one); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"link":"/statuses?ids=`+id+`"}`) // a client that left does no harm
}

func (l *fakeLedger) take(payload []byte) (id string, err error) {
	if len(payload) < leastSize {
		return "", fmt.Errorf("%d bytes, want at least %d", len(payload), leastSize)
	}
	id = string(payload[:idLen])
	lane := binary.BigEndian.Uint32(payload[idLen:])
	place := binary.BigEndian.Uint32(payload[idLen+4:])
	p := l.part(id)
	p.mu.Lock()
	_, known := p.accepted[id]
	if !known {
		p.accepted[id] = time.Now()
	}
	p.mu.Unlock()
	if known {
		l.twice.Add(1)
		return id, nil
	}
	l.batches.Add(1)
	p = &l.parts[lane%uint32(len(l.parts))]
	p.mu.Lock()
	if place != p.next[lane] {
		l.breaches.Add(1)
	}
	p.next[lane] = place + 1
	p.mu.Unlock()
	if block := time.Duration(l.block.Load()); block != 0 {
		l.open.add(id, lane, block, &l.streams)
	} else {
		l.streams.push(id, lane)
	}
	return id, nil
}

// openBlock holds the batches of the next block.
type openBlock struct {
	mu      sync.Mutex
	batches []inBlock
}

type inBlock struct {
	id   string
	lane uint32
}

// add puts a batch into the open block; at the block's end the streams get all its batches.
func (o *openBlock) add(id string, lane uint32, block time.Duration, to *streams) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.batches = append(o.batches, inBlock{id, lane}); len(o.batches) > 1 {
		return
	}
	now := time.Now()
	time.AfterFunc(now.Truncate(block).Add(block).Sub(now), func() {
		for _, b := range o.take() {
			to.push(b.id, b.lane)
		}
	})
}

func (o *openBlock) take() (all []inBlock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all, o.batches = o.batches, nil
	return all
}

func (l *fakeLedger) serveStatuses(w http.ResponseWriter, r *http.Request) {
	l.asks.Add(1)
	ids := strings.Split(r.URL.Query().Get("ids"), ",")
	out := make([]answer, len(ids))
	end := time.Now() // of the last block
	if block := time.Duration(l.block.Load()); block != 0 {
		end = end.Truncate(block)
	}
	for i, id := range ids {
		p := l.part(id)
		p.mu.Lock()
		at, known := p.accepted[id]
		p.mu.Unlock()
		out[i] = answer{id, wordCommitted}
		switch {
		case !known:
			out[i].Status = wordUnknown
		case at.After(end):
			out[i].Status = wordPending
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// part returns the part of an id. The id's first digits are random.
func (l *fakeLedger) part(id string) *part {
	n := uint32(0)
	for i := range min(8, len(id)) {
		n = n*31 + uint32(id[i])
	}
	return &l.parts[n%uint32(len(l.parts))]
}

func (l *fakeLedger) reset() tally {
	l.open.take()
	for i := range l.parts {
		p := &l.parts[i]
		p.mu.Lock()
		p.accepted, p.next = map[string]time.Time{}, map[uint32]uint32{}
		p.mu.Unlock()
	}
	return tally{l.posts.Swap(0), l.asks.Swap(0), l.batches.Swap(0), l.twice.Swap(0), l.breaches.Swap(0)}
}

// appendAll is io.ReadAll into a slice that the caller may pass in.
func appendAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that left does no harm
}
