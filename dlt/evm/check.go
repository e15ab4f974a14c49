package evm

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// maxSize is the longest transaction that nodes take, in bytes.
const maxSize = 128 << 10

// NewBatch returns the batch of a signed transaction: its id is the hash, and its service the
// account that signed, both as 0x and lower-case hex. It keeps the slice. The error is a
// [*batch.InputError]. What depends on the chain, [Client.Check] tests.
func NewBatch(signed []byte) (batch.Batch, error) {
	tx, sender, err := parse(signed)
	if err != nil {
		return batch.Batch{}, err
	}
	return batch.Batch{ID: batch.ID(tx.Hash().String()), Service: service(sender), Payload: signed}, nil
}

func service(a evmtx.Address) batch.ServiceID { return batch.ServiceID(a.String()) }

// parse reads a payload and recovers its sender.
func parse(payload []byte) (*evmtx.Tx, evmtx.Address, error) {
	if len(payload) > maxSize {
		return nil, evmtx.Address{}, &batch.InputError{Field: "payload", Value: strconv.Itoa(len(payload)) + " bytes", Want: "131072 at most"}
	}
	if len(payload) > 1 && payload[0] == '0' && payload[1] == 'x' {
		return nil, evmtx.Address{}, &batch.InputError{Field: "payload", Value: "0x...", Want: "the bytes of a signed transaction, not their hex digits"}
	}
	tx, err := evmtx.Decode(payload)
	if err != nil {
		return nil, evmtx.Address{}, err
	}
	sender, err := tx.Sender()
	return tx, sender, err
}

// senders remembers who signed some payloads, by their hashes: to recover that from a signature costs
// more than all else that a process does for a send, and Add has done it a moment before Submit.
type senders struct {
	mu sync.Mutex
	by map[evmtx.Hash]evmtx.Address
}

const maxSenders = 10_000

// parse is the function of that name. The hash covers every byte, so a remembered result is true.
func (s *senders) parse(payload []byte) (*evmtx.Tx, evmtx.Address, error) {
	hash := evmtx.Keccak(payload)
	s.mu.Lock()
	sender, known := s.by[hash]
	s.mu.Unlock()
	if known {
		tx, err := evmtx.Decode(payload)
		return tx, sender, err
	}
	tx, sender, err := parse(payload)
	if err != nil {
		return tx, sender, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxSenders {
		s.by = map[evmtx.Hash]evmtx.Address{}
	}
	s.by[hash] = sender
	return tx, sender, nil
}

// Check implements [dlt.Checker]. It refuses every batch whose payload is not the canonical
// encoding of one signed transaction of this chain, of type 0 with a chain id, 1, 2 or 4, by the
// account that the service names; whose id is not the hash; and which the chain could never
// execute: a priority fee above the fee cap, or less gas than the transaction itself costs. The
// error is a [*batch.InputError].
func (c *Client) Check(b batch.Batch) error {
	_, _, err := c.read(b.Key(), b.Payload)
	return err
}

func (c *Client) read(key batch.Key, payload []byte) (*evmtx.Tx, evmtx.Address, error) {
	tx, sender, err := c.senders.parse(payload)
	if err == nil {
		err = c.fits(tx)
	}
	if err == nil && key.Service != service(sender) {
		err = &batch.InputError{Field: "service", Value: batch.Excerpt(string(key.Service), 80), Want: sender.String() + ", the account that signed"}
	}
	if hash := batch.ID(""); err == nil {
		if hash = batch.ID(evmtx.Keccak(payload).String()); key.ID != hash {
			err = &batch.InputError{Field: "id", Value: batch.Excerpt(string(key.ID), 80), Want: string(hash) + ", the hash of the payload"}
		}
	}
	if in, ok := errors.AsType[*batch.InputError](err); ok {
		in.Key = key
	}
	return tx, sender, err
}

// fits reports what keeps a transaction from ever being executed on this chain.
func (c *Client) fits(tx *evmtx.Tx) error {
	want := strconv.FormatUint(c.chain, 10)
	switch {
	case tx.ChainID == 0:
		return &batch.InputError{Field: "chain_id", Value: "none", Want: want + ": without one anybody can send the transaction to another chain"}
	case tx.ChainID != c.chain:
		return &batch.InputError{Field: "chain_id", Value: strconv.FormatUint(tx.ChainID, 10), Want: want}
	case tx.Tip.Cmp(tx.FeeCap) > 0:
		return &batch.InputError{Field: "max_priority_fee_per_gas", Value: excerpt(tx.Tip), Want: "at most max_fee_per_gas, " + excerpt(tx.FeeCap)}
	case tx.Nonce == math.MaxUint64:
		return &batch.InputError{Field: "nonce", Value: strconv.FormatUint(tx.Nonce, 10), Want: "less than 2^64-1 (EIP-2681)"}
	case tx.Type == evmtx.SetCode && tx.To == nil:
		return &batch.InputError{Field: "to", Value: "none", Want: "an account: a transaction of type 4 creates no contract"}
	case tx.Type == evmtx.SetCode && len(tx.Auths) == 0:
		return &batch.InputError{Field: "authorization_list", Value: "empty", Want: "one authorization or more"}
	}
	least := tx.IntrinsicGas()
	if !c.o.NoFloorGas {
		least = max(least, tx.FloorGas())
	}
	if tx.Gas < least {
		return &batch.InputError{Field: "gas", Value: strconv.FormatUint(tx.Gas, 10), Want: strconv.FormatUint(least, 10) + " at least, the cost of the transaction itself"}
	}
	return nil
}

func excerpt(v *big.Int) string { return batch.Excerpt(v.String(), 80) }
