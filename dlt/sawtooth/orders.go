package sawtooth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// OrderBuilder is a [order.RoundBuilder] for Sawtooth and Splinter: the application turns each
// order into transactions, and the OrderBuilder makes one signed batch of them. The same
// orders, in the same order and round, give the same bytes and the same id, if the signer's
// signatures are deterministic (those of [PrivateKey] are). Its methods may be called
// concurrently if the signer's methods and the application's func may.
type OrderBuilder struct {
	signer       Signer
	transactions func(ctx context.Context, o order.Order) ([]Transaction, error)
	options      OrderBuilderOptions
}

var _ order.RoundBuilder = (*OrderBuilder)(nil)

// OrderBuilderOptions are the options of [NewOrderBuilder]. The zero value of each
// field is its default.
type OrderBuilderOptions struct {
	// MaxBody is the size of request that the node accepts: orders whose batch would have this
	// many bytes, or more, are divided. Set it to MaxBody of the client's options, also for
	// Splinter, whose default is larger. Defaults to [DefaultMaxBody].
	MaxBody int
}

// NewOrderBuilder makes a builder that signs with s for as long as the process runs. transactions
// makes the transactions of one order, at least one, in the order of execution, and the same each
// time. It leaves out the Nonce, or sets a value that becomes part of the real Nonce. If its error
// wraps [batch.ErrInvalidInput], nothing can be made of this order; after any other error
// transactions is called again later. nil options mean the defaults. The error is a
// [*batch.InputError].
func NewOrderBuilder(s Signer, transactions func(ctx context.Context, o order.Order) ([]Transaction, error), o *OrderBuilderOptions) (*OrderBuilder, error) {
	if err := checkSigner(s); err != nil {
		return nil, err
	}
	if transactions == nil {
		return nil, &batch.InputError{Field: "transactions", Want: "a func"}
	}
	if _, err := parsePublicKey(s.PublicKey()); err != nil {
		return nil, err
	}
	b := &OrderBuilder{signer: s, transactions: transactions}
	if o != nil {
		b.options = *o
	}
	if b.options.MaxBody == 0 {
		b.options.MaxBody = DefaultMaxBody
	}
	return b, nil
}

// Build implements [order.Builder].
func (b *OrderBuilder) Build(ctx context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
	return b.BuildRound(ctx, party, orders, 0)
}

// BuildRound implements [order.RoundBuilder]. In another round the same orders get other ids,
// because the next batch must not have the id of one that had no effect. A signer's failure is
// never an order's fault: the error wraps [dlt.ErrMisconfigured] or the signer's error.
func (b *OrderBuilder) BuildRound(ctx context.Context, party batch.ServiceID, orders []order.Order, round int64) (batch.Batch, error) {
	var signed []SignedTransaction
	seed := orderSeed(party, orders, round)
	for _, o := range orders {
		if err := ctx.Err(); err != nil { // because a remote signer may be slow
			return batch.Batch{}, fmt.Errorf("sawtooth: build: %w", err)
		}
		txs, err := b.transactions(ctx, o)
		if err == nil && len(txs) == 0 {
			err = &batch.InputError{Field: "transactions", Value: "none", Want: "at least one of each order"}
		}
		if err != nil {
			return batch.Batch{}, fmt.Errorf("sawtooth: transactions of order %s: %w", batch.Excerpt(string(o.ID), 64), err)
		}
		for i, t := range txs {
			t.Nonce = orderNonce(seed, o.ID, i, t.Nonce)
			if err := t.validate(); err != nil {
				return batch.Batch{}, fmt.Errorf("sawtooth: transaction %d of order %s: %w", i, batch.Excerpt(string(o.ID), 64), err)
			}
			s, err := t.Sign(b.signer, "")
			if err != nil {
				return batch.Batch{}, signerError(err)
			}
			signed = append(signed, s)
		}
	}
	ids := make([]string, len(signed))
	for i, t := range signed {
		ids[i] = t.ID
	}
	header := encodeBatchHeader(&pb.BatchHeader{SignerPublicKey: b.signer.PublicKey(), TransactionIds: ids})
	id, err := sign(b.signer, header)
	if err != nil {
		return batch.Batch{}, signerError(err)
	}
	out, err := Parse(encodeBatch(header, id, signed, false), party)
	if err != nil {
		return batch.Batch{}, err
	}
	if err := check(out, b.options.MaxBody, false); err != nil { // without the signatures, which were just made or checked
		return batch.Batch{}, err
	}
	return out, nil
}

// signerError keeps a signer's failure from counting against the orders, because a bad signature
// would fail the batches of all orders.
func signerError(err error) error {
	if errors.Is(err, batch.ErrInvalidInput) {
		return &dlt.Error{Op: "build", Kind: dlt.ErrMisconfigured, Message: batch.Excerpt(err.Error(), batch.MaxErrorText)}
	}
	return fmt.Errorf("sawtooth: build: %w", err)
}

// orderSeed returns the seed for the nonces of a batch's transactions. It depends on all orders of
// the batch, so that no transaction is part of two batches: a node attributes an invalid
// transaction to the first batch that had it, and leaves the other batch pending for ever
// (docs/ledgers/sawtooth.md#pending-for-ever, P6).
func orderSeed(party batch.ServiceID, orders []order.Order, round int64) []byte {
	h := sha256.New()
	writeWithLength(h, "dltbatch orders")
	writeWithLength(h, string(party))
	h.Write(binary.AppendVarint(nil, round))
	for _, o := range orders {
		writeWithLength(h, string(o.ID))
	}
	return h.Sum(nil)
}

func orderNonce(seed []byte, id order.ID, i int, own string) string {
	h := sha256.New()
	h.Write(seed)
	writeWithLength(h, string(id))
	writeWithLength(h, own)
	h.Write(binary.AppendUvarint(nil, uint64(i)))
	return hex.EncodeToString(h.Sum(nil))
}

// writeWithLength writes the length of a text and the text to h, so that two texts never look like
// one.
func writeWithLength(h hash.Hash, s string) {
	h.Write(binary.AppendUvarint(nil, uint64(len(s))))
	h.Write([]byte(s))
}
