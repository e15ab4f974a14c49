package evm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// slot is the content of batch.Attempt.Prepared: one nonce, and each transaction that may be
// executed for it. Only transactions in the slot are sent, so at most one of all that were ever
// sent is executed, and every process can look for each of them. A slot grows, and nothing in it
// ever changes.
//
// The slot of an intent holds the signed transactions, and grows with each new one. The slot of
// alternatives holds all of them from the beginning, because others may have them, too, and grows
// by permissions to send.
type slot struct {
	nonce           uint64
	gas             uint64
	maxFee          *big.Int // the batch's own limit
	entries         []entry
	sendPermissions []sendPermission // nil for an intent
}

// entry is a signed transaction without the parts that are in the payload or the slot.
type entry struct {
	height uint64 // height of the node's head at the signing; 0 for an alternative
	// closingGas is the gas of the transfer of nothing that closes the nonce. It is 0 for any
	// other transaction.
	closingGas uint64
	fee        Fee
	sig        [65]byte // r, s and the parity; zero for an alternative
	hash       evmtx.Hash
}

// sendPermission means that from a height on an alternative, and each lower one, may be sent.
type sendPermission struct {
	entryIndex int
	height     uint64 // height of the node's head
}

const (
	slotVersion   = 1
	feeBits       = 128
	feeBytes      = feeBits / 8
	slotHeadBytes = 1 + 8 + 8 + feeBytes
	entryBytes    = 8 + 8 + 2*feeBytes + 65 + 32
	maxEntries    = (dlt.MaxPrepared - slotHeadBytes) / entryBytes
	// closingEntries is how many entries of an intent's slot are left free for transactions that
	// close its nonce.
	closingEntries = 6
)

// The encoding of the slot of alternatives.
const (
	listSlotVersion = 2
	listHeadBytes   = 1 + 1 + 8
	listEntryBytes  = 2*feeBytes + 32
	permissionBytes = 1 + 8
	maxPermissions  = (dlt.MaxPrepared - listHeadBytes - MaxAlternatives*listEntryBytes) / permissionBytes
)

// newListSlot returns the slot of alternatives of which none may be sent yet.
func newListSlot(p *parsedPayload) *slot {
	s := &slot{nonce: p.txs[0].Nonce, maxFee: p.txs[len(p.txs)-1].FeeCap}
	for i, tx := range p.txs {
		s.entries = append(s.entries, entry{fee: Fee{Tip: tx.Tip, FeeCap: tx.FeeCap}, hash: p.hashes[i]})
	}
	return s
}

func (s *slot) encode() []byte {
	b := []byte{slotVersion}
	b = binary.BigEndian.AppendUint64(b, s.nonce)
	b = binary.BigEndian.AppendUint64(b, s.gas)
	b = appendFee(b, s.maxFee)
	for _, e := range s.entries {
		b = e.append(b)
	}
	return b
}

// encodeList encodes the slot of alternatives, as encode does that of an intent.
func (s *slot) encodeList() []byte {
	b := []byte{listSlotVersion, byte(len(s.entries))}
	b = binary.BigEndian.AppendUint64(b, s.nonce)
	for _, e := range s.entries {
		b = append(appendFee(appendFee(b, e.fee.Tip), e.fee.FeeCap), e.hash[:]...)
	}
	for _, t := range s.sendPermissions {
		b = t.append(b)
	}
	return b
}

func (e *entry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, e.height)
	b = binary.BigEndian.AppendUint64(b, e.closingGas)
	b = appendFee(appendFee(b, e.fee.Tip), e.fee.FeeCap)
	return append(append(b, e.sig[:]...), e.hash[:]...)
}

func (t sendPermission) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, byte(t.entryIndex)), t.height)
}

func appendFee(b []byte, v *big.Int) []byte { return append(b, v.FillBytes(make([]byte, feeBytes))...) }

var errSlot = errors.New("the kept bytes are no slot of this client")

func decodeSlot(b []byte) (*slot, error) {
	n := (len(b) - slotHeadBytes) / entryBytes
	if n < 1 || n > maxEntries || len(b) != slotHeadBytes+n*entryBytes || b[0] != slotVersion {
		return nil, fmt.Errorf("%w: %d bytes", errSlot, len(b))
	}
	s := &slot{nonce: binary.BigEndian.Uint64(b[1:]), gas: binary.BigEndian.Uint64(b[9:]), maxFee: new(big.Int).SetBytes(b[17:slotHeadBytes])}
	for b = b[slotHeadBytes:]; len(b) > 0; b = b[entryBytes:] {
		e := entry{height: binary.BigEndian.Uint64(b), closingGas: binary.BigEndian.Uint64(b[8:])}
		e.fee.Tip = new(big.Int).SetBytes(b[16 : 16+feeBytes])
		e.fee.FeeCap = new(big.Int).SetBytes(b[16+feeBytes : 16+2*feeBytes])
		copy(e.sig[:], b[16+2*feeBytes:])
		copy(e.hash[:], b[16+2*feeBytes+65:])
		s.entries = append(s.entries, e)
	}
	return s, nil
}

// decodeList decodes the slot of alternatives, as decodeSlot does that of an intent.
func decodeList(b []byte) (*slot, error) {
	fail := func() (*slot, error) { return nil, fmt.Errorf("%w: %d bytes", errSlot, len(b)) }
	if len(b) < listHeadBytes || b[0] != listSlotVersion {
		return fail()
	}
	n := int(b[1])
	turns := len(b) - listHeadBytes - n*listEntryBytes
	if n < 2 || n > MaxAlternatives || turns < permissionBytes || turns%permissionBytes != 0 || turns/permissionBytes > maxPermissions {
		return fail()
	}
	s := &slot{nonce: binary.BigEndian.Uint64(b[2:])}
	rest := b[listHeadBytes:]
	for range n {
		e := entry{fee: Fee{Tip: new(big.Int).SetBytes(rest[:feeBytes]), FeeCap: new(big.Int).SetBytes(rest[feeBytes : 2*feeBytes])}}
		copy(e.hash[:], rest[2*feeBytes:])
		s.entries, rest = append(s.entries, e), rest[listEntryBytes:]
	}
	s.maxFee = s.entries[n-1].fee.FeeCap
	for ; len(rest) > 0; rest = rest[permissionBytes:] {
		t := sendPermission{int(rest[0]), binary.BigEndian.Uint64(rest[1:])}
		if t.entryIndex >= n || len(s.sendPermissions) > 0 && t.entryIndex < s.sendPermissions[len(s.sendPermissions)-1].entryIndex {
			return fail()
		}
		s.sendPermissions = append(s.sendPermissions, t)
	}
	return s, nil
}

// lastEntry returns the transaction to send next: the one with the highest fees that may be sent.
// Its height is that of the head from which on it may be sent.
func (s *slot) lastEntry() entry {
	if s.sendPermissions == nil {
		return s.entries[len(s.entries)-1]
	}
	t := s.sendPermissions[len(s.sendPermissions)-1]
	e := s.entries[t.entryIndex]
	e.height = t.height
	return e
}

// hashes returns the transactions' hashes, each once.
func (s *slot) hashes() (out []evmtx.Hash) {
	for _, e := range s.entries {
		if !slices.Contains(out, e.hash) {
			out = append(out, e.hash)
		}
	}
	return out
}

// tx rebuilds a transaction of the slot. An error means that the entry belongs to another payload.
func (s *slot) tx(e entry, in intent, sender evmtx.Address, chain uint64) (*evmtx.Tx, error) {
	gas := s.gas
	if e.closingGas != 0 {
		in, gas = transferOfNothing(sender), e.closingGas
	}
	tx := in.tx(chain, s.nonce, gas, e.fee)
	tx.R, tx.S, tx.YParity = new(big.Int).SetBytes(e.sig[:32]), new(big.Int).SetBytes(e.sig[32:64]), e.sig[64]
	hash := tx.Hash()
	if hash != e.hash { // on a chain without a base fee the transaction has type 0
		tx.Type = evmtx.Legacy
	}
	if tx.Hash() != e.hash {
		return nil, fmt.Errorf("%w: it has %s, and the payload makes %s", errSlot, e.hash, hash)
	}
	return tx, nil
}

// leastReplacement returns the lowest fees of a replacement that every node accepts.
func (s *slot) leastReplacement() Fee {
	f := s.lastEntry().fee
	return Fee{Tip: raisedFee(f.Tip), FeeCap: raisedFee(f.FeeCap)}
}

// raisedFee returns v plus an eighth, rounded up, and at least v+1: nodes ask for a tenth more of
// both fees.
func raisedFee(v *big.Int) *big.Int {
	out := new(big.Int).Mul(v, big.NewInt(9))
	out.Rsh(out.Add(out, big.NewInt(7)), 3)
	return largest(out, new(big.Int).Add(v, big.NewInt(1)))
}

// canRise reports whether the slot and the limit of fees have room for a replacement.
func (s *slot) canRise() bool {
	room := maxEntries
	if !s.isClosing() {
		room -= closingEntries
	}
	return len(s.entries) < room && s.leastReplacement().FeeCap.Cmp(s.maxFee) <= 0
}

// lastAllowedIndex returns the index of the alternative that may be sent last.
func (s *slot) lastAllowedIndex() int { return s.sendPermissions[len(s.sendPermissions)-1].entryIndex }

// firstPaying returns the index of the lowest alternative, from the index from on, that pays the
// base fee at this head. ok is false if none does.
func (s *slot) firstPaying(from int, head block) (i int, ok bool) {
	for i = from; i < len(s.entries); i++ {
		if s.entries[i].fee.paysBaseFee(head) {
			return i, true
		}
	}
	return 0, false
}

// hasRoomForPermission reports whether the slot has room for another permission of the same
// alternative, besides the room that is kept for each higher alternative.
func (s *slot) hasRoomForPermission() bool {
	return len(s.sendPermissions)+MaxAlternatives < maxPermissions
}

// isStalled reports whether the last transaction waits, as far as this head shows, because its
// fees are too low. after is Options.BumpAfter.
func (s *slot) isStalled(head block, after uint64) bool {
	last := s.lastEntry()
	waited := head.number >= last.height && head.number-last.height >= after // height+after could be above 64 bits
	return waited || !last.fee.paysBaseFee(head)
}

// freeHeight returns a height at which the slot's nonce was free. The block at that height was
// deep when the nonce was chosen: the account's count after the last deep block was the nonce.
func (s *slot) freeHeight(f Finality) uint64 {
	height := s.entries[0].height
	if f.usesTag() {
		return height - min(height, maxTagLag)
	}
	return height - min(height, f.blocks)
}

// maxTagLag is how many blocks the "finalized" block may be behind the head: more than three
// epochs.
const maxTagLag = 128

// repeatLast returns the prepared bytes with the slot's last transaction once more, as waiting
// since this head: it waits for another nonce, and not for a higher fee. Half of the room stays
// free for higher fees.
func (s *slot) repeatLast(head block, kept []byte) []byte {
	if len(s.entries) >= maxEntries/2 {
		return kept
	}
	e := s.lastEntry()
	e.height = head.number
	return e.append(bytes.Clone(kept))
}
