package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
)

// Queue is the part of dltbatch that the service needs. *dltbatch.Runner is a Queue.
type Queue interface {
	Add(ctx context.Context, batches ...batch.Batch) error
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
}

// Shipments writes shipments to a ledger, the shipments of each carrier in order:
//
//	POST /shipments                 {"carrier": "sea", "id": "s-1", "goods": "tea"}
//	GET  /shipments/{carrier}/{id}  {"state": "confirmed"}
type Shipments struct {
	queue Queue
	mux   *http.ServeMux
}

// NewShipments returns the service, which adds its batches to a queue.
func NewShipments(q Queue) *Shipments {
	s := &Shipments{queue: q, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /shipments", s.post)
	s.mux.HandleFunc("GET /shipments/{carrier}/{id}", s.get)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Shipments) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Shipment is the payload for the ledger.
type Shipment struct {
	Carrier string `json:"carrier"`
	ID      string `json:"id"`
	Goods   string `json:"goods"`
}

func (s Shipment) batch() (batch.Batch, error) {
	payload, err := json.Marshal(s) // to be signed, if the ledger needs signatures
	return batch.Batch{ID: batch.ID(s.ID), Service: batch.ServiceID(s.Carrier), Payload: payload}, err
}

// post answers 202 once the shipment is stored: from then on its delivery is certain.
func (s *Shipments) post(w http.ResponseWriter, r *http.Request) {
	var shipment Shipment
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&shipment); err != nil {
		http.Error(w, "no shipment", http.StatusBadRequest)
		return
	}
	b, err := shipment.batch()
	if err == nil {
		err = s.queue.Add(r.Context(), b)
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	case errors.Is(err, batch.ErrInvalidInput):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, batch.ErrConflict):
		http.Error(w, "another shipment has this id", http.StatusConflict)
	default:
		// The shipment may have been stored; the client can safely send it again.
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}

// Answer is the answer of GET about a shipment.
type Answer struct {
	State string `json:"state"` // waiting, confirmed, refused, or stuck: a person has to decide
	Why   string `json:"why,omitempty"`
}

func (s *Shipments) get(w http.ResponseWriter, r *http.Request) {
	key := batch.Key{Service: batch.ServiceID(r.PathValue("carrier")), ID: batch.ID(r.PathValue("id"))}
	rec, err := s.queue.Get(r.Context(), key)
	switch {
	case errors.Is(err, batch.ErrNotFound):
		http.Error(w, "no such shipment", http.StatusNotFound)
	case err != nil:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer(rec)) // an error means that the client has gone
	}
}

func answer(rec batch.Record) Answer {
	a := Answer{State: "waiting"}
	switch {
	case rec.Final() && rec.State == batch.Committed:
		a.State = "confirmed"
	case rec.Final():
		a.State = "refused"
	case rec.Decision != "":
		return Answer{State: "stuck", Why: rec.Decision}
	case !rec.DoubtSince.IsZero():
		return Answer{State: "waiting", Why: "sent, and not known yet whether the ledger took it"}
	}
	if rec.Error != nil {
		a.Why = rec.Error.Error()
	}
	return a
}
