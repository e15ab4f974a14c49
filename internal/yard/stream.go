package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// streams sends commits to listeners.
type streams struct {
	mu        sync.Mutex
	listeners []*listener
}

type listener struct {
	committed []byte        // ids and lanes, a line each, that the listener has not got yet
	more      chan struct{} // holds one signal
}

// lineLen is an id, a blank, a lane and the end of a line.
const lineLen = idLen + 1 + 8 + 1

func (s *streams) push(id string, lane uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.committed = fmt.Appendf(l.committed, "%s %08x\n", id, lane)
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
}

// ServeHTTP sends the id and the lane of each batch that is committed, until the client
// leaves. Once the client has the head of the answer, it misses none.
func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := &listener{more: make(chan struct{}, 1)}
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.listeners = slices.DeleteFunc(s.listeners, func(x *listener) bool { return x == l })
		s.mu.Unlock()
	}()
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	var spare []byte
	for {
		select {
		case <-l.more:
		case <-r.Context().Done():
			return
		}
		s.mu.Lock()
		lines := l.committed
		l.committed = spare[:0]
		s.mu.Unlock()
		if _, err := w.Write(lines); err != nil || out.Flush() != nil {
			return
		}
		spare = lines
	}
}

// withEvents is a client that gets events of commits.
type withEvents struct{ *fake }

// Traits implements dlt.Ledger.
func (t *withEvents) Traits(s batch.ServiceID) dlt.Traits {
	traits := t.fake.Traits(s)
	traits.Streams = true
	return traits
}

// Events implements dlt.EventSource.
func (t *withEvents) Events(ctx context.Context, _ []batch.ServiceID, yield func(dlt.Event) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+"/events", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /events: %s", resp.Status)
	}
	if err := yield(dlt.Event{Live: true}); err != nil {
		return err
	}
	in := bufio.NewReaderSize(resp.Body, 1<<16)
	var line [lineLen]byte
	for {
		if _, err := io.ReadFull(in, line[:]); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // that is how it ends
			}
			return err
		}
		lane, err := strconv.ParseUint(string(line[idLen+1:lineLen-1]), 16, 32)
		if err != nil {
			return err
		}
		// The batch's own service: the commit is recorded under that name.
		e := dlt.Event{Service: laneName(int(lane)), Statuses: []batch.Status{{ID: batch.ID(line[:idLen]), Reported: batch.ReportedCommitted}}}
		if err := yield(e); err != nil {
			return err
		}
	}
}
