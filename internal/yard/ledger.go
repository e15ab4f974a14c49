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
)

// ledgerTally counts the POSTs to the fake ledger, and the batches in them, since its last reset.
type ledgerTally struct {
	Posts    int64 `json:"posts"`
	Batches  int64 `json:"batches"`  // different batches
	Twice    int64 `json:"twice"`    // batches that came again
	Breaches int64 `json:"breaches"` // batches that came before an earlier one of their lane
}

// statusAnswer is the fake ledger's answer about one batch.
type statusAnswer struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// The statuses of the fake ledger.
const (
	wordUnknown   = "UNKNOWN"
	wordCommitted = "COMMITTED"
)

// ledgerPart holds a part of the fake ledger's batches and lanes, under a lock of its own.
type ledgerPart struct {
	mu              sync.Mutex
	accepted        map[string]bool   // by id
	nextPlaceOfLane map[uint32]uint32 // by lane: the place of the next batch
}

// fakeLedger accepts batches, and commits each at once. It enforces no order, but counts batches
// that arrive out of order.
type fakeLedger struct {
	parts [64]ledgerPart

	postCount, batchCount, repeated, outOfTurn atomic.Int64
	bodyBuffers                                sync.Pool
}

func newFakeLedger() *fakeLedger {
	l := &fakeLedger{bodyBuffers: sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}}
	l.resetAndTally()
	return l
}

// ServeHTTP implements http.Handler.
//
//	POST /batches        one batch
//	GET  /statuses?ids=  the batches' statuses; ids by comma
//	POST /reset          forgets everything, and returns its tally
func (l *fakeLedger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /batches":
		l.serveBatch(w, r)
	case "GET /statuses":
		l.serveStatuses(w, r)
	case "POST /reset":
		writeJSON(w, http.StatusOK, l.resetAndTally())
	default:
		http.NotFound(w, r)
	}
}

func (l *fakeLedger) serveBatch(w http.ResponseWriter, r *http.Request) {
	body := l.bodyBuffers.Get().(*[]byte)
	defer l.bodyBuffers.Put(body)
	var err error
	if *body, err = readAllInto((*body)[:0], r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.postCount.Add(1)
	id, err := l.acceptBatch(*body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"link":"/statuses?ids=`+id+`"}`) // a client that left does no harm
}

func (l *fakeLedger) acceptBatch(payload []byte) (id string, err error) {
	if len(payload) < minPayloadSize {
		return "", fmt.Errorf("%d bytes, want at least %d", len(payload), minPayloadSize)
	}
	id = string(payload[:idLen])
	lane := binary.BigEndian.Uint32(payload[idLen:])
	place := binary.BigEndian.Uint32(payload[idLen+4:])
	p := l.partOf(id)
	p.mu.Lock()
	known := p.accepted[id]
	p.accepted[id] = true
	p.mu.Unlock()
	if known {
		l.repeated.Add(1)
		return id, nil
	}
	l.batchCount.Add(1)
	p = &l.parts[lane%uint32(len(l.parts))]
	p.mu.Lock()
	if place != p.nextPlaceOfLane[lane] {
		l.outOfTurn.Add(1)
	}
	p.nextPlaceOfLane[lane] = place + 1
	p.mu.Unlock()
	return id, nil
}

func (l *fakeLedger) serveStatuses(w http.ResponseWriter, r *http.Request) {
	ids := strings.Split(r.URL.Query().Get("ids"), ",")
	out := make([]statusAnswer, len(ids))
	for i, id := range ids {
		out[i] = statusAnswer{id, wordUnknown}
		p := l.partOf(id)
		p.mu.Lock()
		if p.accepted[id] {
			out[i].Status = wordCommitted
		}
		p.mu.Unlock()
	}
	writeJSON(w, http.StatusOK, out)
}

// partOf returns the part of an id, by the id's first digits, which are random.
func (l *fakeLedger) partOf(id string) *ledgerPart {
	n := uint32(0)
	for i := range min(8, len(id)) {
		n = n*31 + uint32(id[i])
	}
	return &l.parts[n%uint32(len(l.parts))]
}

func (l *fakeLedger) resetAndTally() ledgerTally {
	for i := range l.parts {
		p := &l.parts[i]
		p.mu.Lock()
		p.accepted, p.nextPlaceOfLane = map[string]bool{}, map[uint32]uint32{}
		p.mu.Unlock()
	}
	return ledgerTally{l.postCount.Swap(0), l.batchCount.Swap(0), l.repeated.Swap(0), l.outOfTurn.Swap(0)}
}

// readAllInto is io.ReadAll with a buffer from the caller.
func readAllInto(b []byte, r io.Reader) ([]byte, error) {
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
	_, _ = w.Write(body) // an error means that the client has gone
}
