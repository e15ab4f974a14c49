package sawtoothtest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// Node is a Sawtooth validator with its REST API. It is an [http.Handler] for any server;
// [Start] and [Listen] bring their own. All methods may be called concurrently.
type Node struct {
	options Options

	mu               sync.Mutex
	validator        *validator
	changed          chan struct{} // closed, and replaced, after every change that a request makes
	triesByOperation map[Operation]map[batch.ID]int
	nextSeq          int

	closed    chan struct{} // closed to end hanging requests
	closeOnce sync.Once
	front     simnode.Front

	socketMu sync.Mutex
	sockets  map[*socket]struct{}
}

// NewNode returns a node that does not listen anywhere. It panics on options
// that contradict each other; [Listen] returns an error instead.
func NewNode(o *Options) *Node {
	n, err := newNode(o)
	if err != nil {
		panic(err)
	}
	return n
}

func newNode(o *Options) (*Node, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		options:          c,
		changed:          make(chan struct{}),
		triesByOperation: map[Operation]map[batch.ID]int{OpSubmit: {}, OpStatuses: {}, OpLookup: {}},
		closed:           make(chan struct{}),
		sockets:          map[*socket]struct{}{},
	}
	n.validator = newValidator(time.Now(), &n.options)
	return n, nil
}

// whileLocked runs f under the lock, after the validator did everything that was due. A user's
// hook in f may panic or end its goroutine, and the lock must not be held for ever then.
func (n *Node) whileLocked(f func(now time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.advanceToNow())
}

// advanceToNow makes the validator do everything that is due. The caller holds the lock.
func (n *Node) advanceToNow() time.Time {
	now := time.Now()
	n.validator.advance(now)
	return now
}

// wake wakes the requests that wait for a change. The caller holds the lock.
func (n *Node) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// Why a request has no answer of the validator.
var (
	errTimedOut   = errors.New("sawtoothtest: no reply in time")
	errClientGone = errors.New("sawtoothtest: the client has left")
	errRestarted  = errors.New("sawtoothtest: the node was restarted")
	// errDisconnected means that the validator was killed while it had the request.
	errDisconnected = errors.New("sawtoothtest: the validator has gone")
)

// await waits until ready returns true. It calls ready under the lock.
func (n *Node) await(ctx context.Context, epoch int, deadline time.Time, ready func() bool) error {
	for {
		var err error
		var isOver bool
		var changed chan struct{}
		until := deadline
		n.whileLocked(func(now time.Time) {
			switch {
			case n.validator.restartCount != epoch:
				err, isOver = errRestarted, true
			case ready():
				isOver = true
			case !now.Before(deadline):
				err, isOver = errTimedOut, true
			}
			if at, ok := n.validator.nextTime(); ok && at.Before(until) {
				until = at
			}
			changed = n.changed
		})
		if isOver {
			return err
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return errClientGone
		case <-n.closed:
			timer.Stop()
			return errClientGone
		}
		timer.Stop()
	}
}

// runTask makes the validator run a task. If the task has to wait, it may run after runTask has
// returned an error, and after the client has left.
func (n *Node) runTask(ctx context.Context, epoch int, deadline time.Time, t *task) error {
	restarted := false
	n.whileLocked(func(now time.Time) {
		if restarted = n.validator.restartCount != epoch; !restarted {
			n.validator.giveTask(now, t)
			n.wake()
		}
	})
	if restarted {
		return errRestarted
	}
	if err := n.await(ctx, epoch, deadline, func() bool { return t.hasRun || t.isLost }); err != nil {
		return err
	}
	if t.isLost {
		return errDisconnected
	}
	return nil
}

// answerOfError returns the answer to a request that ended with an error of runTask. It returns
// false if the client has left or the node was restarted: then there is no answer.
func answerOfError(err error) (answer, bool) {
	switch {
	case errors.Is(err, errTimedOut):
		return codeAnswer(codeTimedOut), true
	case errors.Is(err, errDisconnected):
		return codeAnswer(codeDisconnected), true
	}
	return answer{}, false
}

// pause waits for d, and reports whether the client is still connected.
func (n *Node) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-n.closed:
	}
	return false
}

// hang waits until the client ends the connection or the node is closed.
func (n *Node) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-n.closed:
	}
}

// drawFault counts a request of ids[0], and returns that count and the request's fault.
func (n *Node) drawFault(op Operation, ids []batch.ID) (int, Fault) {
	try := 0
	if len(ids) > 0 {
		n.triesByOperation[op][ids[0]]++
		try = n.triesByOperation[op][ids[0]]
	}
	return try, n.options.Faults.drawRequest(RequestPoint{Operation: op, Batches: ids, Try: try})
}

// beginRead begins a read request. It returns the node's current epoch, and the request's fault.
func (n *Node) beginRead(op Operation, ids []batch.ID) (epoch int, f Fault) {
	n.whileLocked(func(time.Time) {
		epoch = n.validator.restartCount
		_, f = n.drawFault(op, ids)
	})
	return epoch, f
}

// ServeHTTP implements [http.Handler].
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if what := tooLongPart(r); what != "" {
		w.Header().Set("Connection", "close")
		n.send(w, r, htmlAnswer(http.StatusBadRequest, "Got more than 8190 bytes when reading "+what+" is too long."), Fault{})
		return
	}
	n.route(w, r)
}

// tooLongPart names the part of a request that is above the limit of the HTTP parser: 8190 bytes
// for the target and for each header.
func tooLongPart(r *http.Request) string {
	const limit = 8190
	if len(r.RequestURI) > limit {
		return "Status line"
	}
	for key, values := range r.Header {
		if len(key) > limit {
			return "Header name"
		}
		for _, v := range values {
			if len(v) > limit {
				return "Header value"
			}
		}
	}
	return ""
}

// send writes an answer after the fault has changed it.
func (n *Node) send(w http.ResponseWriter, r *http.Request, a answer, f Fault) {
	a = f.changedAnswer(a)
	switch f.Answer {
	case AnswerNever:
		n.hang(r.Context())
		simnode.Reset(w)
		return
	case AnswerReset:
		simnode.Reset(w)
		return
	case AnswerTruncated:
		simnode.Truncate(w, a.status, a.contentType, a.body, len(a.body))
		return
	}
	w.Header().Set("Content-Type", a.contentType)
	w.WriteHeader(a.status)
	// The client may have ended the connection.
	_, _ = w.Write(a.body)
}
