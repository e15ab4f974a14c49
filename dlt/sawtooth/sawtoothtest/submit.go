package sawtoothtest

import (
	"container/heap"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// post is one POST /batches.
type post struct {
	n       *Node
	w       http.ResponseWriter
	r       *http.Request
	request int // in the journal
	at      int
	epoch   int
	began   time.Time
	ids     []batch.ID
	fault   Fault
}

func (n *Node) submit(w http.ResponseWriter, r *http.Request) {
	p := &post{n: n, w: w, r: r}
	n.locked(func(now time.Time) {
		p.epoch, p.began = n.v.epoch, now
		p.request, p.at = n.v.journal.startPost(now)
	})

	list, early := p.read()
	if early != nil {
		p.answer(*early)
		return
	}
	for _, b := range list.GetBatches() {
		p.ids = append(p.ids, batch.ID(b.GetHeaderSignature()))
	}
	n.locked(func(time.Time) {
		var try int
		try, p.fault = n.try(OpSubmit, p.ids)
		n.v.journal.named(p.at, p.ids, try)
	})

	if !n.pause(r.Context(), p.fault.Delay) {
		p.fault.Answer = AnswerReset // no client is left
		p.end(0)
		simnode.Reset(w)
		return
	}
	switch p.fault.Answer {
	case AnswerProperly, AnswerTruncated, AnswerNonJSON:
		p.take(list)
	case AnswerNever, AnswerReset, AnswerError:
		p.fail(list)
	}
}

// read decodes the list of the request, or returns the answer to a malformed request
// (docs/ledgers/sawtooth.md#submitting).
func (p *post) read() (*pb.BatchList, *answer) {
	early := func(a answer) (*pb.BatchList, *answer) { return nil, &a }
	types, ok := p.r.Header["Content-Type"]
	if !ok {
		return early(plain500())
	}
	if types[0] != "application/octet-stream" {
		return early(codeAnswer(codeSubmitContentType))
	}
	body, a := p.n.body(p.r)
	if a != nil {
		return nil, a
	}
	if len(body) == 0 {
		return early(codeAnswer(codeNoBatches))
	}
	list, ok := readList(body)
	if !ok {
		return early(codeAnswer(codeBadProtobuf))
	}
	return list, nil
}

// readList reads a BatchList like the REST API: it stops, without an error, at the first tag
// that is 0 or ends a group, and skips unknown fields. So text such as "hello world" and a
// body of zeros are lists without a batch.
func readList(body []byte) (*pb.BatchList, bool) {
	list := &pb.BatchList{}
	for len(body) > 0 {
		tag, n := protowire.ConsumeVarint(body)
		if n < 0 {
			return nil, false
		}
		if tag == 0 || tag&7 == uint64(protowire.EndGroupType) {
			break
		}
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, false
		}
		body = body[n:]
		if n = protowire.ConsumeFieldValue(number, kind, body); n < 0 {
			return nil, false
		}
		if number == 1 && kind == protowire.BytesType {
			raw, _ := protowire.ConsumeBytes(body)
			b := &pb.Batch{}
			if proto.Unmarshal(raw, b) != nil {
				return nil, false
			}
			list.Batches = append(list.Batches, b)
		}
		body = body[n:]
	}
	return list, true
}

// body reads a request's body. A body that is not smaller than the limit gets a 413, as text.
func (n *Node) body(r *http.Request) ([]byte, *answer) {
	body, err := io.ReadAll(io.LimitReader(r.Body, n.o.MaxBody))
	if err != nil {
		a := textAnswer(http.StatusBadRequest, "Bad Request")
		return nil, &a
	}
	if int64(len(body)) < n.o.MaxBody {
		return body, nil
	}
	// The server reads on for a while, so that the client gets to read the answer.
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 8*n.o.MaxBody))
	a := textAnswer(http.StatusRequestEntityTooLarge, "413: Request Entity Too Large")
	return nil, &a
}

// take passes the list to the validator and writes the answer.
func (p *post) take(list *pb.BatchList) {
	bs, err := decode(list)
	if err == nil {
		err = p.pipeline(bs)
	}
	switch {
	case err == nil:
		ids := make([]string, len(p.ids))
		for i, id := range p.ids {
			ids[i] = string(id)
		}
		p.answer(jsonAnswer(http.StatusAccepted, map[string]any{
			"link": link(p.r, "/batch_statuses", map[string]string{"id": strings.Join(ids, ",")}),
		}))
	case errors.Is(err, errRefused):
		p.answer(codeAnswer(codeBatchesInvalid))
	case errors.Is(err, errFull):
		p.answer(codeAnswer(codeQueueFull))
	case errors.Is(err, errNoReply):
		// No reply comes: the REST API waits for its whole timeout.
		if !p.n.pause(p.r.Context(), time.Until(p.began.Add(p.fault.Delay+p.n.o.RESTTimeout))) {
			p.end(0)
			simnode.Reset(p.w)
			return
		}
		p.answer(codeAnswer(codeTimedOut))
	default:
		a, ok := unanswered(err)
		if !ok { // the client has left, or the node was restarted
			p.end(0)
			simnode.Reset(p.w)
			return
		}
		p.answer(a)
	}
}

var errFull = errors.New("sawtoothtest: pool is full")

// pipeline runs the validator's checks in its order: permissions, back pressure, signatures,
// structure, completer. Nothing is kept unless all pass.
func (p *post) pipeline(bs []*submitted) error {
	n := p.n
	if !permitted(bs, n.o.Permitted) {
		return errRefused
	}
	full := false
	n.locked(func(time.Time) { full = n.v.full() })
	if full {
		return errFull
	}
	// The validator goes on with this if it has to wait, even if the client leaves.
	answer := verify(bs, n.o.SkipVerify)
	err := n.call(p.r.Context(), p.epoch, time.Now().Add(n.o.RESTTimeout), &ticket{publisher: true, run: func(now time.Time) {
		switch {
		case n.v.full():
			answer = errFull
		case answer == nil:
			n.v.accept(now, bs)
		}
	}})
	if err != nil {
		return err
	}
	return answer
}

// fail answers with the fault. The batches are accepted before it, after it, or never.
func (p *post) fail(list *pb.BatchList) {
	n := p.n
	if p.fault.Taken != NotTaken {
		if bs, err := decode(list); err == nil && permitted(bs, n.o.Permitted) && verify(bs, n.o.SkipVerify) == nil {
			n.locked(func(now time.Time) {
				switch {
				case p.fault.Taken == TakenLate:
					n.late(now.Add(p.fault.After), bs)
				case n.v.epoch == p.epoch:
					n.v.hand(now, n.take(bs))
					n.wake()
				}
			})
		}
	}
	if p.fault.Answer == AnswerNever {
		n.hang(p.r.Context())
		p.fault.Answer = AnswerReset
	}
	p.answer(answer{})
}

// late makes a list reach the validator at a later time. The caller holds the lock.
func (n *Node) late(at time.Time, bs []*submitted) {
	n.seq++
	heap.Push(&n.v.late, lateArrival{at: at, seq: n.seq, run: func(now time.Time) { n.v.hand(now, n.take(bs)) }})
	n.wake()
}

// take returns the ticket that accepts a verified list without a waiting client.
func (n *Node) take(bs []*submitted) *ticket {
	return &ticket{publisher: true, run: func(now time.Time) {
		if !n.v.full() {
			n.v.accept(now, bs)
		}
	}}
}

// answer first journals the end of the POST and then writes: a client that has read the answer
// finds it in the journal.
func (p *post) answer(a answer) {
	status := p.fault.replace(a).status
	if p.fault.Answer == AnswerReset {
		status = 0
	}
	p.end(status)
	p.n.send(p.w, p.r, a, p.fault)
}

func (p *post) end(status int) {
	p.n.locked(func(now time.Time) {
		p.n.v.journal.add(Entry{Time: now, Kind: PostEnd, Batches: p.ids, Request: p.request, Status: status})
	})
}
