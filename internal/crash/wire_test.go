package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
)

// lateArrival is the time after the end of its connection in which the unforgiving ledger may
// still execute a request, and sometimes does.
const lateArrival = 150 * time.Millisecond

// wireServer serves the in-process ledger over HTTP.
func wireServer(l *ledgermem.Ledger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /submit", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client died before the request was complete
		}
		n, err := strconv.Atoi(r.URL.Query().Get("attempt"))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		a := batch.Attempt{
			Key:    batch.Key{Service: batch.ServiceID(r.URL.Query().Get("service")), ID: batch.ID(r.URL.Query().Get("id"))},
			Number: n, Payload: body,
		}
		switch err := l.Submit(r.Context(), a); dlt.Kind(err) {
		case "":
			w.WriteHeader(http.StatusAccepted)
		case batch.KindBusy:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	})
	mux.HandleFunc("POST /statuses", func(w http.ResponseWriter, r *http.Request) {
		var attempts []batch.Attempt
		if err := json.NewDecoder(r.Body).Decode(&attempts); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		statuses, err := l.BatchStatuses(r.Context(), "", attempts)
		writeReply(w, statuses, err)
	})
	mux.HandleFunc("POST /resolve", func(w http.ResponseWriter, r *http.Request) {
		var d dlt.Doubt
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e, err := l.Resolve(r.Context(), d)
		writeReply(w, e, err)
	})
	return mux
}

func writeReply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(v) // an error means that the client was killed
}

// wireLedger is the client of wireServer.
type wireLedger struct {
	dlt.Unimplemented

	url    string
	client *http.Client
}

func (*wireLedger) Traits(batch.ServiceID) dlt.Traits { return ledgermem.Unforgiving(lateArrival) }

func (l *wireLedger) Submit(ctx context.Context, a batch.Attempt) error {
	q := url.Values{"service": {string(a.Service)}, "id": {string(a.ID)}, "attempt": {strconv.Itoa(a.Number)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/submit?"+q.Encode(), io.NopCloser(bytes.NewReader(a.Payload)))
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(a.Payload))
	resp, err := l.client.Do(req)
	if err != nil {
		return &dlt.Error{Op: "submit", Err: err}
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusAccepted:
		return nil
	case http.StatusTooManyRequests:
		return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy, StatusCode: resp.StatusCode}
	}
	return &dlt.Error{Op: "submit", StatusCode: resp.StatusCode}
}

func (l *wireLedger) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
	return out, l.ask(ctx, "/statuses", attempts, &out)
}

func (l *wireLedger) Resolve(ctx context.Context, a dlt.Doubt) (e dlt.Evidence, err error) {
	return e, l.ask(ctx, "/resolve", a, &e)
}

func (l *wireLedger) ask(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// writeBatches writes the batches to a file, so that every child gets the same bytes.
func writeBatches(path string, batches []batch.Batch) error {
	text, err := json.Marshal(batches)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func readBatches(path string) (batches []batch.Batch, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return batches, json.Unmarshal(text, &batches)
}
