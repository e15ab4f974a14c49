package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store"
)

// payment is the body of a client's request.
type payment struct {
	ID    string `json:"id"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// books is the table of the service itself.
type books interface {
	// Enter writes a payment and the id of its batch, unless they are stored already, and calls
	// add before the commit.
	Enter(ctx context.Context, p payment, id batch.ID, add func(store.Tx) error) error
	// Batch returns the id of a payment's batch, or errMissing.
	Batch(ctx context.Context, payment string) (batch.ID, error)
}

var (
	errIDTaken = errors.New("another payment has this id")
	errMissing = errors.New("no such payment")
)

// payments is the service's own work, without HTTP server, database and ledger.
type payments struct {
	books  books
	runner *dltbatch.Runner
	key    sawtooth.Signer
}

// paymentsLane is the one lane of all payments, so that they reach the ledger in the order of
// their commits.
const paymentsLane batch.ServiceID = "payments"

func (s *payments) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments/{id}", s.post)
	mux.HandleFunc("GET /payments/{id}", s.get)
	return mux
}

func (s *payments) post(w http.ResponseWriter, r *http.Request) {
	p := payment{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&p); err != nil || p.To == "" || p.Cents <= 0 {
		http.Error(w, `want {"to": "somebody", "cents": 1 or more}`, http.StatusBadRequest)
		return
	}
	p.ID = r.PathValue("id")
	b, err := s.sign(p)
	if err == nil {
		err = s.books.Enter(r.Context(), p, b.ID, func(tx store.Tx) error { return s.runner.AddTx(r.Context(), tx, b) })
	}
	switch {
	case errors.Is(err, errIDTaken):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, batch.ErrInvalidInput):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil: // the payment may be stored; the client sends it again
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		s.runner.Wake(paymentsLane)
		w.WriteHeader(http.StatusAccepted) // from now on delivery is certain
	}
}

// sign makes the batch of a payment. The same payment has the same batch, so that a client may
// repeat its request.
func (s *payments) sign(p payment) (batch.Batch, error) {
	sum := sha256.Sum256([]byte(p.To + "/" + p.ID))
	payload, address := sawtoothtest.Set(hex.EncodeToString(sum[:10]), p.Cents) // an intkey payload; yours would have the whole payment
	b, err := sawtooth.Build(s.key, paymentsLane, sawtooth.Transaction{
		FamilyName: "intkey", FamilyVersion: "1.0", Nonce: p.ID,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	b.Tags = batch.Tags{"to": p.To}
	return b, err
}

func (s *payments) get(w http.ResponseWriter, r *http.Request) {
	id, err := s.books.Batch(r.Context(), r.PathValue("id"))
	var rec batch.Record
	if err == nil {
		rec, err = s.runner.Get(r.Context(), batch.Key{Service: paymentsLane, ID: id})
	}
	switch {
	case errors.Is(err, errMissing):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	case rec.Decision != "":
		fmt.Fprintln(w, "a person has to decide:", rec.Decision)
	case !rec.Final():
		fmt.Fprintln(w, "waiting")
	default:
		fmt.Fprintln(w, rec.State) // "Committed", or another state
	}
}
