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

// The largest sizes that nodes accept, in bytes: of a transaction, and of one with its blobs.
const (
	maxTxBytes     = 128 << 10
	maxBlobTxBytes = 1 << 20
)

// NewBatch returns the batch of a payload, which is a signed transaction or the result of
// [Alternatives]. Its id is the hash of the transaction, or of the first alternative, and its
// service is the account that signed, both as 0x and lower-case hex. NewBatch keeps the slice. The
// error is a [*batch.InputError]. [Client.Check] tests the conditions that depend on the chain.
func NewBatch(payload []byte) (batch.Batch, error) {
	p, err := parsePayload(payload)
	if err != nil {
		return batch.Batch{}, err
	}
	return batch.Batch{ID: p.id(), Service: serviceOf(p.sender), Payload: payload}, nil
}

func serviceOf(a evmtx.Address) batch.ServiceID { return batch.ServiceID(a.String()) }

// parsedPayload is a payload that was read: one transaction, or alternatives with rising fees, of
// which the chain executes one at most.
type parsedPayload struct {
	encodedTxs [][]byte
	txs        []*evmtx.Tx
	hashes     []evmtx.Hash
	senders    []evmtx.Address // nil if the payload was read before
	sender     evmtx.Address
}

// id returns the hash of the first transaction. So a transaction that is a batch by itself already
// cannot begin another batch of the store.
func (p *parsedPayload) id() batch.ID { return batch.ID(p.hashes[0].String()) }

// parsePayload reads a payload and recovers its sender.
func parsePayload(payload []byte) (*parsedPayload, error) {
	p, err := decodePayload(payload)
	if err != nil {
		return nil, err
	}
	return p, p.recoverSenders()
}

func (p *parsedPayload) recoverSenders() error {
	for i, tx := range p.txs {
		sender, err := tx.Sender()
		if err != nil {
			return p.nameAlternative(i, err)
		}
		p.senders = append(p.senders, sender)
	}
	p.sender = p.senders[0]
	return p.checkAlternatives()
}

// decodePayload reads a payload without recovering its sender.
func decodePayload(payload []byte) (*parsedPayload, error) {
	raws, err := splitPayload(payload)
	if err != nil {
		return nil, err
	}
	p := &parsedPayload{encodedTxs: raws}
	for i, raw := range raws {
		tx, err := decodeTx(raw)
		if err != nil {
			return nil, p.nameAlternative(i, err)
		}
		if tx.Sidecar != nil { // the hash does not cover the sidecar
			raw = tx.Encode()
		}
		p.txs, p.hashes = append(p.txs, tx), append(p.hashes, evmtx.Keccak(raw))
	}
	return p, nil
}

// nameAlternative adds to an input error the place of the transaction among the alternatives.
func (p *parsedPayload) nameAlternative(i int, err error) error {
	if in, ok := errors.AsType[*batch.InputError](err); ok && len(p.encodedTxs) > 1 {
		in.Field = alternativeField(i) + "." + in.Field
	}
	return err
}

func decodeTx(raw []byte) (*evmtx.Tx, error) {
	most := maxTxBytes
	if len(raw) > 0 && raw[0] == evmtx.Blob {
		most = maxBlobTxBytes
	}
	if len(raw) > most {
		return nil, &batch.InputError{Field: "payload", Value: strconv.Itoa(len(raw)) + " bytes", Want: strconv.Itoa(most) + " at most"}
	}
	if len(raw) > 1 && raw[0] == '0' && raw[1] == 'x' {
		return nil, &batch.InputError{Field: "payload", Value: "0x...", Want: "the bytes of a signed transaction, not their hex digits"}
	}
	tx, err := evmtx.Decode(raw)
	if err == nil && tx.Type == evmtx.Blob && (tx.Sidecar == nil || len(tx.Sidecar.Blobs) == 0) {
		return nil, &batch.InputError{Field: "blobs", Value: "none", Want: "1 to 6 blobs, their commitments and their proofs behind the transaction (the network form of EIP-4844 or EIP-7594): no node takes a transaction of type 3 without them"}
	}
	return tx, err
}

// senderMemory remembers the senders of some payloads by the payloads' hashes. Recovering a sender
// from a signature costs more than everything else that a process does for a send, and Add has
// recovered the sender a moment before Submit.
type senderMemory struct {
	mu            sync.Mutex
	byPayloadHash map[evmtx.Hash]evmtx.Address
}

const maxSenders = 10_000

// parse does what the function parsePayload does, and remembers the senders. A payload's hash
// covers everything that the sender is recovered from, so a remembered sender is right.
func (s *senderMemory) parse(payload []byte) (*parsedPayload, error) {
	p, err := decodePayload(payload)
	if err != nil {
		return nil, err
	}
	hash := p.hashes[0]
	if len(p.txs) > 1 {
		hash = evmtx.Keccak(payload)
	}
	s.mu.Lock()
	sender, known := s.byPayloadHash[hash]
	s.mu.Unlock()
	if known {
		p.sender = sender
		return p, nil
	}
	if err := p.recoverSenders(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPayloadHash == nil || len(s.byPayloadHash) >= maxSenders {
		s.byPayloadHash = map[evmtx.Hash]evmtx.Address{}
	}
	s.byPayloadHash[hash] = p.sender
	return p, nil
}

// Check implements [dlt.Ledger]. It refuses a batch
//   - whose payload is neither the canonical encoding of one signed transaction nor the result
//     of [Alternatives], of this chain, of type 0 with a chain id, or 1 to 4, by the account
//     that the service names,
//   - whose id is not the hash of the transaction or of the first alternative,
//   - which the chain could never execute: a priority fee above the fee cap, or less gas than
//     the transaction itself costs.
//
// A transaction of type 3 has its blobs with it, whose commitments must be those of its hashes;
// only nodes test the proofs. The error is a [*batch.InputError].
func (c *Client) Check(b batch.Batch) error {
	_, err := c.readPayload(b.Key(), b.Payload)
	return err
}

func (c *Client) readPayload(key batch.Key, payload []byte) (*parsedPayload, error) {
	p, err := c.senderMemory.parse(payload)
	if err != nil {
		return nil, withKey(err, key)
	}
	for i, tx := range p.txs {
		if err := c.checkExecutable(tx); err != nil {
			return nil, withKey(p.nameAlternative(i, err), key)
		}
	}
	if key.Service != serviceOf(p.sender) {
		return nil, &batch.InputError{Key: key, Field: "service", Value: batch.Excerpt(string(key.Service), 80), Want: p.sender.String() + ", the account that signed"}
	}
	if key.ID != p.id() {
		of := "the hash of the payload"
		if len(p.txs) > 1 {
			of = "the hash of " + alternativeField(0)
		}
		return nil, &batch.InputError{Key: key, Field: "id", Value: batch.Excerpt(string(key.ID), 80), Want: string(p.id()) + ", " + of}
	}
	return p, nil
}

// checkExecutable returns an error that names why a transaction can never be executed on this
// chain.
func (c *Client) checkExecutable(tx *evmtx.Tx) error {
	want := strconv.FormatUint(c.chain, 10)
	switch {
	case tx.ChainID == 0:
		return &batch.InputError{Field: "chain_id", Value: "none", Want: want + ": without one anybody can send the transaction to another chain"}
	case tx.ChainID != c.chain:
		return &batch.InputError{Field: "chain_id", Value: strconv.FormatUint(tx.ChainID, 10), Want: want}
	case tx.Tip.Cmp(tx.FeeCap) > 0:
		return &batch.InputError{Field: "max_priority_fee_per_gas", Value: numberExcerpt(tx.Tip), Want: "at most max_fee_per_gas, " + numberExcerpt(tx.FeeCap)}
	case tx.Nonce == math.MaxUint64:
		return &batch.InputError{Field: "nonce", Value: strconv.FormatUint(tx.Nonce, 10), Want: "less than 2^64-1 (EIP-2681)"}
	case tx.Type >= evmtx.Blob && tx.To == nil:
		return &batch.InputError{Field: "to", Value: "none", Want: "an account: a transaction of type " + strconv.Itoa(int(tx.Type)) + " creates no contract"}
	case tx.Type == evmtx.Blob && tx.BlobFeeCap.Sign() == 0:
		return &batch.InputError{Field: "max_fee_per_blob_gas", Value: "0", Want: "1 wei at least, the lowest price of blob gas (EIP-4844)"}
	case tx.Type == evmtx.SetCode && len(tx.Auths) == 0:
		return &batch.InputError{Field: "authorization_list", Value: "empty", Want: "one authorization or more"}
	}
	least := tx.IntrinsicGas()
	if !c.options.NoFloorGas {
		least = max(least, tx.FloorGas())
	}
	if tx.Gas < least {
		return &batch.InputError{Field: "gas", Value: strconv.FormatUint(tx.Gas, 10), Want: strconv.FormatUint(least, 10) + " at least, the cost of the transaction itself"}
	}
	return nil
}

func numberExcerpt(v *big.Int) string { return batch.Excerpt(v.String(), 80) }
