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

// postRequest is one POST /batches.
type postRequest struct {
	node        *Node
	writer      http.ResponseWriter
	httpRequest *http.Request
	number      int // number of the request in the journal
	entryIndex  int
	epoch       int
	begunAt     time.Time
	ids         []batch.ID
	fault       Fault
}

func (n *Node) serveSubmit(w http.ResponseWriter, r *http.Request) {
	p := &postRequest{node: n, writer: w, httpRequest: r}
	n.whileLocked(func(now time.Time) {
		p.epoch, p.begunAt = n.validator.restartCount, now
		p.number, p.entryIndex = n.validator.journal.startPost(now)
	})

	list, early := p.readList()
	if early != nil {
		p.writeAnswer(*early)
		return
	}
	for _, b := range list.GetBatches() {
		p.ids = append(p.ids, batch.ID(b.GetHeaderSignature()))
	}
	n.whileLocked(func(time.Time) {
		var try int
		try, p.fault = n.drawFault(OpSubmit, p.ids)
		n.validator.journal.addIDs(p.entryIndex, p.ids, try)
	})

	if !n.pause(r.Context(), p.fault.Delay) {
		p.fault.Answer = AnswerReset // the client has left
		p.noteEnd(0)
		simnode.Reset(w)
		return
	}
	switch p.fault.Answer {
	case AnswerProperly, AnswerTruncated, AnswerNonJSON:
		p.acceptList(list)
	case AnswerNever, AnswerReset, AnswerError:
		p.answerFault(list)
	}
}

// readList decodes the list of the request, or returns the answer to a malformed request
// (docs/ledgers/sawtooth.md#submitting).
func (p *postRequest) readList() (*pb.BatchList, *answer) {
	early := func(a answer) (*pb.BatchList, *answer) { return nil, &a }
	types, ok := p.httpRequest.Header["Content-Type"]
	if !ok {
		return early(exceptionAnswer())
	}
	if types[0] != "application/octet-stream" {
		return early(codeAnswer(codeSubmitContentType))
	}
	body, a := p.node.readBody(p.httpRequest)
	if a != nil {
		return nil, a
	}
	if len(body) == 0 {
		return early(codeAnswer(codeNoBatches))
	}
	list, ok := decodeList(body)
	if !ok {
		return early(codeAnswer(codeBadProtobuf))
	}
	return list, nil
}

// decodeList reads a BatchList as the REST API does. It stops, without an error, at the first tag
// that is 0 or ends a group, and skips unknown fields. So a text such as "hello world" and a body
// of zeros are lists without a batch.
func decodeList(body []byte) (*pb.BatchList, bool) {
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

// readBody reads a request's body. If the body is not smaller than the limit, the answer is a 413
// with a text.
func (n *Node) readBody(r *http.Request) ([]byte, *answer) {
	body, err := io.ReadAll(io.LimitReader(r.Body, n.options.MaxBody))
	if err != nil {
		a := textAnswer(http.StatusBadRequest, "Bad Request")
		return nil, &a
	}
	if int64(len(body)) < n.options.MaxBody {
		return body, nil
	}
	// The server reads more of the body, so that the client can read the answer.
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 8*n.options.MaxBody))
	a := textAnswer(http.StatusRequestEntityTooLarge, "413: Request Entity Too Large")
	return nil, &a
}

// acceptList passes the list to the validator and writes the answer.
func (p *postRequest) acceptList(list *pb.BatchList) {
	bs, err := decode(list)
	if err == nil {
		err = p.runChecks(bs)
	}
	switch {
	case err == nil:
		ids := make([]string, len(p.ids))
		for i, id := range p.ids {
			ids[i] = string(id)
		}
		p.writeAnswer(jsonAnswer(http.StatusAccepted, map[string]any{
			"link": linkTo(p.httpRequest, "/batch_statuses", map[string]string{"id": strings.Join(ids, ",")}),
		}))
	case errors.Is(err, errRefused):
		p.writeAnswer(codeAnswer(codeBatchesInvalid))
	case errors.Is(err, errPoolFull):
		p.writeAnswer(codeAnswer(codeQueueFull))
	case errors.Is(err, errNoReply):
		// No reply comes, and the REST API waits for its whole timeout.
		if !p.node.pause(p.httpRequest.Context(), time.Until(p.begunAt.Add(p.fault.Delay+p.node.options.RESTTimeout))) {
			p.noteEnd(0)
			simnode.Reset(p.writer)
			return
		}
		p.writeAnswer(codeAnswer(codeTimedOut))
	default:
		a, ok := answerOfError(err)
		if !ok { // the client has left, or the node was restarted
			p.noteEnd(0)
			simnode.Reset(p.writer)
			return
		}
		p.writeAnswer(a)
	}
}

var errPoolFull = errors.New("sawtoothtest: pool is full")

// runChecks makes the validator's checks in its order: permissions, back pressure, signatures,
// structure, completer. The batches are accepted only if all pass.
func (p *postRequest) runChecks(bs []*submittedBatch) error {
	n := p.node
	if !areSignersPermitted(bs, n.options.PermitsSigner) {
		return errRefused
	}
	full := false
	n.whileLocked(func(time.Time) { full = n.validator.isFull() })
	if full {
		return errPoolFull
	}
	// If this task has to wait, the validator runs it even if the client leaves.
	answer := verifyBatches(bs, n.options.SkipVerify)
	err := n.runTask(p.httpRequest.Context(), p.epoch, time.Now().Add(n.options.RESTTimeout), &task{needsPublisher: true, do: func(now time.Time) {
		switch {
		case n.validator.isFull():
			answer = errPoolFull
		case answer == nil:
			n.validator.accept(now, bs)
		}
	}})
	if err != nil {
		return err
	}
	return answer
}

// answerFault answers as the fault says. The batches are accepted before the answer, after it, or
// never.
func (p *postRequest) answerFault(list *pb.BatchList) {
	n := p.node
	if p.fault.Acceptance != NotAccepted {
		if bs, err := decode(list); err == nil && areSignersPermitted(bs, n.options.PermitsSigner) && verifyBatches(bs, n.options.SkipVerify) == nil {
			n.whileLocked(func(now time.Time) {
				switch {
				case p.fault.Acceptance == AcceptedLate:
					n.acceptLater(now.Add(p.fault.AcceptAfter), bs)
				case n.validator.restartCount == p.epoch:
					n.validator.giveTask(now, n.acceptTask(bs))
					n.wake()
				}
			})
		}
	}
	if p.fault.Answer == AnswerNever {
		n.hang(p.httpRequest.Context())
		p.fault.Answer = AnswerReset
	}
	p.writeAnswer(answer{})
}

// acceptLater lets a list reach the validator at a later time. The caller holds the lock.
func (n *Node) acceptLater(at time.Time, bs []*submittedBatch) {
	n.nextSeq++
	heap.Push(&n.validator.latePosts, lateArrival{arrivesAt: at, seq: n.nextSeq, accept: func(now time.Time) { n.validator.giveTask(now, n.acceptTask(bs)) }})
	n.wake()
}

// acceptTask returns the task that accepts a verified list without a client that waits.
func (n *Node) acceptTask(bs []*submittedBatch) *task {
	return &task{needsPublisher: true, do: func(now time.Time) {
		if !n.validator.isFull() {
			n.validator.accept(now, bs)
		}
	}}
}

// writeAnswer first notes the end of the POST in the journal and then writes the answer: a client
// that has read the answer finds its end in the journal.
func (p *postRequest) writeAnswer(a answer) {
	status := p.fault.changedAnswer(a).status
	if p.fault.Answer == AnswerReset {
		status = 0
	}
	p.noteEnd(status)
	p.node.send(p.writer, p.httpRequest, a, p.fault)
}

func (p *postRequest) noteEnd(status int) {
	p.node.whileLocked(func(now time.Time) {
		p.node.validator.journal.add(Entry{Time: now, Kind: PostEnd, Batches: p.ids, Request: p.number, Status: status})
	})
}
