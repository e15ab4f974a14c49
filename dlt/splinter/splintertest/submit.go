package splintertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// submit serves POST batches. It reads the body, waits for the connection's worker, parses the
// list, tests the back pressure, verifies the batches, and then notes and queues them one by one.
func (v *node) submit(w http.ResponseWriter, r *http.Request, s *service) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client left during the request
	}
	list, parseErr := decodeList(body)
	var ids []batch.ID
	for _, b := range list {
		if b != nil {
			ids = append(ids, b.id)
		}
	}
	request, f := v.startPost(s, ids)
	if f.Delay > 0 && !v.delay(r, f.Delay) {
		v.endPost(s, ids, request, 0)
		panic(http.ErrAbortHandler)
	}
	a := answer{}
	if f.Answer == AnswerProperly || f.Answer == AnswerTruncated || f.Acceptance == AcceptedFirst {
		done, ok := v.waitForWorker(r)
		if ok {
			a = v.acceptBatches(r.Context(), s, list, parseErr)
			done()
		}
		if a.status == 0 && f.Answer == AnswerProperly {
			f.Answer = AnswerReset // the node has died
		}
	}
	status := a.status
	switch f.Answer {
	case AnswerError:
		status = f.Status
	case AnswerNever, AnswerReset:
		status = 0
	}
	v.endPost(s, ids, request, status)
	if f.Acceptance == AcceptedLate {
		v.goUnlessClosed(func() {
			if v.pause(f.AcceptAfter) {
				v.acceptBatches(r.Context(), s, list, parseErr)
			}
		})
	}
	v.send(w, r, a, f)
}

func (v *node) startPost(s *service, ids []batch.ID) (request int, f Fault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.postCount++
	try := 0
	for i, id := range ids {
		v.triesByOperation[OpSubmit][id]++
		if i == 0 {
			try = v.triesByOperation[OpSubmit][id]
		}
	}
	v.note(Entry{Kind: PostStart, Service: s.name(), Batches: ids, Request: v.postCount, Try: try})
	return v.postCount, v.options.Faults.drawRequest(RequestPoint{Operation: OpSubmit, Service: s.name(), Batches: ids, Try: try})
}

func (v *node) endPost(s *service, ids []batch.ID, request, status int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note(Entry{Kind: PostEnd, Service: s.name(), Batches: ids, Request: request, Status: status})
}

func (v *node) delay(r *http.Request, d time.Duration) bool { return v.pause(d, r.Context().Done()) }

// acceptBatches does the handler's work. It waits for the locks of the service, even if the client
// leaves. An answer without a status means that the node died.
func (v *node) acceptBatches(client context.Context, s *service, list []*submitted, parseErr error) answer {
	if parseErr != nil {
		return errorAnswer(http.StatusBadRequest, "Invalid body: not a valid list of batches")
	}
	verifyErr := verifyBatches(list)
	if !v.waitForLocks(s) {
		return answer{}
	}
	defer v.mu.Unlock()
	switch {
	case !v.isUp:
		return answer{}
	case s.isRefusing:
		return answer{status: http.StatusTooManyRequests}
	case errors.Is(verifyErr, errNoBatches):
		return errorAnswer(http.StatusBadRequest, "No valid batches provided")
	case verifyErr != nil:
		return serverErrorAnswer()
	}
	ids := make([]string, len(list))
	for i, b := range list {
		v.accept(s, b, client.Err() != nil)
		ids[i] = string(b.id)
	}
	link := "/scabbard/" + s.Circuit.ID + "/" + s.id + "/batch_statuses?ids=" + strings.Join(ids, ",")
	return jsonAnswer(http.StatusAccepted, map[string]string{"link": strings.TrimSuffix(link, "=")})
}
