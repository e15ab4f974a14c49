package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// shop is one process of the service.
type shop struct {
	db     *sql.DB
	store  *postgres.Store
	runner *dltbatch.Runner
	key    sawtooth.Signer // only of the web process
}

type order struct {
	ID       string `json:"id"` // the client's Idempotency-Key
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Quantity int64  `json:"quantity"`
}

var (
	errOutOfStock = errors.New("out of stock")
	errOtherOrder = errors.New("this Idempotency-Key belongs to another order")
)

// placeOrder is the point of this program: the order, the stock and the batch change in one
// transaction, or not at all. It reports whether the order is new.
func (s *shop) placeOrder(ctx context.Context, o order, b batch.Batch) (created bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // does nothing after the commit

	r, err := tx.ExecContext(ctx, `INSERT INTO orders (id, customer, item, quantity, batch) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO NOTHING`, o.ID, o.Customer, o.Item, o.Quantity, string(b.ID))
	if n, err := rowsAffected(r, err); err != nil {
		return false, err
	} else if n == 0 { // the order was placed before, with its batch
		return false, sameOrder(ctx, tx, o, b)
	}
	// This calls AddTx of the Runner and not of the store. The store knows no ledger: it would
	// store a batch that the node cannot read, and that batch would never end.
	if err := s.runner.AddTx(ctx, s.store.Tx(tx), b); err != nil {
		return false, err
	}
	r, err = tx.ExecContext(ctx, `UPDATE stock SET remaining = remaining - $1 WHERE item = $2 AND remaining >= $1`, o.Quantity, o.Item)
	if n, err := rowsAffected(r, err); err != nil {
		return false, err
	} else if n == 0 {
		return false, errOutOfStock // the rollback removes the order and its batch
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	s.runner.Wake(b.Service) // tells the worker; otherwise its next scan finds the batch, within a second
	return true, nil
}

// sameOrder compares a repeated order with the stored one by their batches, since the same order
// always has the same batch.
func sameOrder(ctx context.Context, tx *sql.Tx, o order, b batch.Batch) error {
	var known string
	err := tx.QueryRowContext(ctx, `SELECT batch FROM orders WHERE id = $1`, o.ID).Scan(&known)
	if err == nil && known != string(b.ID) {
		err = errOtherOrder
	}
	return err
}

func rowsAffected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// sign makes the batch of an order. The same order always has the same batch, because signatures
// are deterministic and the nonce is the client's key. Replace the simulated node's transactions
// with those of your own transaction family.
func (s *shop) sign(o order) (batch.Batch, error) {
	name := sha256.Sum256([]byte(o.Item + "/" + o.ID)) // intkey's names have at most 20 characters
	payload, address := sawtoothtest.Set(hex.EncodeToString(name[:10]), o.Quantity)
	b, err := sawtooth.Build(s.key, batch.ServiceID(o.Customer), sawtooth.Transaction{
		FamilyName: "intkey", FamilyVersion: "1.0", Nonce: o.ID,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	b.DataChangeID = o.ID
	return b, err
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /orders/{id}", s.getOrder)
	return mux
}

func (s *shop) postOrder(w http.ResponseWriter, r *http.Request) {
	var o order
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o)
	o.ID = r.Header.Get("Idempotency-Key")
	if err != nil || o.ID == "" || o.Customer == "" || o.Item == "" || o.Quantity < 1 {
		http.Error(w, "want an Idempotency-Key, a customer, an item and a quantity", http.StatusBadRequest)
		return
	}
	b, err := s.sign(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	created, err := s.placeOrder(r.Context(), o, b)
	switch {
	case errors.Is(err, errOutOfStock), errors.Is(err, errOtherOrder):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, "try again with the same Idempotency-Key", http.StatusServiceUnavailable)
	case created:
		w.WriteHeader(http.StatusCreated)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// getOrder returns an order and the state of its batch.
func (s *shop) getOrder(w http.ResponseWriter, r *http.Request) {
	o, key := order{ID: r.PathValue("id")}, batch.Key{}
	err := s.db.QueryRowContext(r.Context(), `SELECT customer, item, quantity, batch FROM orders WHERE id = $1`, o.ID).
		Scan(&o.Customer, &o.Item, &o.Quantity, &key.ID)
	if errors.Is(err, sql.ErrNoRows) {
		http.NotFound(w, r)
		return
	}
	key.Service = batch.ServiceID(o.Customer)
	rec, getErr := s.runner.Get(r.Context(), key)
	if err = errors.Join(err, getErr); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		order
		State string `json:"state"`
	}{o, rec.State.String()})
}

// createTables creates the application's own tables.
const createTables = `CREATE TABLE IF NOT EXISTS orders (
	id text PRIMARY KEY, customer text NOT NULL, item text NOT NULL, quantity bigint NOT NULL, batch text NOT NULL);
CREATE TABLE IF NOT EXISTS stock (item text PRIMARY KEY, remaining bigint NOT NULL);
INSERT INTO stock VALUES ('apple', 1000000), ('pear', 1000000), ('quince', 3) ON CONFLICT DO NOTHING`
