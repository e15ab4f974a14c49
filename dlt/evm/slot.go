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
// executed for it. Nothing is sent that is not in it, so at most one of all that was ever sent is
// executed, and every process can look for each. It grows, and nothing in it ever changes.
//
// The slot of an intent has the signed transactions, and grows with them. The slot of alternatives
// has all of them from the beginning, because others may have them, too, and grows by turns.
type slot struct {
	nonce   uint64
	gas     uint64
	maxFee  *big.Int // the batch's own limit
	entries []entry
	turns   []turn // of alternatives; nil for an intent
}

// entry is a signed transaction, without the parts that the payload and the slot have.
type entry struct {
	height uint64 // the node's head when it was signed; 0 for an alternative
	// closingGas is the gas of a transfer of nothing that closes the nonce; 0 for the intent's own
	// transaction, and for an alternative.
	closingGas uint64
	fee        Fee
	sig        [65]byte // r, s and the parity; zero for an alternative
	hash       evmtx.Hash
}

// turn says that from a height on an alternative, and each before it, may be sent.
type turn struct {
	entryIndex int
	height     uint64 // the node's head
}

const (
	slotVersion   = 1
	feeBits       = 128
	feeBytes      = feeBits / 8
	slotHeadBytes = 1 + 8 + 8 + feeBytes
	entryBytes    = 8 + 8 + 2*feeBytes + 65 + 32
	maxEntries    = (dlt.MaxPrepared - slotHeadBytes) / entryBytes
	// closingEntries is what an intent's own transactions leave for those that close its nonce.
	closingEntries = 6
)

// Of the slot of alternatives.
const (
	listSlotVersion = 2
	listHeadBytes   = 1 + 1 + 8
	listEntryBytes  = 2*feeBytes + 32
	turnBytes       = 1 + 8
	maxTurns        = (dlt.MaxPrepared - listHeadBytes - MaxAlternatives*listEntryBytes) / turnBytes
)

// newListSlot returns the slot of alternatives before the first may be sent.
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

// encodeList is encode for alternatives.
func (s *slot) encodeList() []byte {
	b := []byte{listSlotVersion, byte(len(s.entries))}
	b = binary.BigEndian.AppendUint64(b, s.nonce)
	for _, e := range s.entries {
		b = append(appendFee(appendFee(b, e.fee.Tip), e.fee.FeeCap), e.hash[:]...)
	}
	for _, t := range s.turns {
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

func (t turn) append(b []byte) []byte {
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

// decodeList is decodeSlot for alternatives.
func decodeList(b []byte) (*slot, error) {
	fail := func() (*slot, error) { return nil, fmt.Errorf("%w: %d bytes", errSlot, len(b)) }
	if len(b) < listHeadBytes || b[0] != listSlotVersion {
		return fail()
	}
	n := int(b[1])
	turns := len(b) - listHeadBytes - n*listEntryBytes
	if n < 2 || n > MaxAlternatives || turns < turnBytes || turns%turnBytes != 0 || turns/turnBytes > maxTurns {
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
	for ; len(rest) > 0; rest = rest[turnBytes:] {
		t := turn{int(rest[0]), binary.BigEndian.Uint64(rest[1:])}
		if t.entryIndex >= n || len(s.turns) > 0 && t.entryIndex < s.turns[len(s.turns)-1].entryIndex {
			return fail()
		}
		s.turns = append(s.turns, t)
	}
	return s, nil
}

// lastEntry returns the transaction that goes out next: the highest that may. Its height is that
// since which it may.
func (s *slot) lastEntry() entry {
	if s.turns == nil {
		return s.entries[len(s.entries)-1]
	}
	t := s.turns[len(s.turns)-1]
	e := s.entries[t.entryIndex]
	e.height = t.height
	return e
}

// hashes returns the hash of each transaction once.
func (s *slot) hashes() (out []evmtx.Hash) {
	for _, e := range s.entries {
		if !slices.Contains(out, e.hash) {
			out = append(out, e.hash)
		}
	}
	return out
}

// tx rebuilds a transaction of the slot. An error says that the entry is another payload's.
func (s *slot) tx(e entry, in intent, sender evmtx.Address, chain uint64) (*evmtx.Tx, error) {
	gas := s.gas
	if e.closingGas != 0 {
		in, gas = transferOfNothing(sender), e.closingGas
	}
	tx := in.tx(chain, s.nonce, gas, e.fee)
	tx.R, tx.S, tx.YParity = new(big.Int).SetBytes(e.sig[:32]), new(big.Int).SetBytes(e.sig[32:64]), e.sig[64]
	hash := tx.Hash()
	if hash != e.hash { // on a chain without a base fee it is of type 0
		tx.Type = evmtx.Legacy
	}
	if tx.Hash() != e.hash {
		return nil, fmt.Errorf("%w: it has %s, and the payload makes %s", errSlot, e.hash, hash)
	}
	return tx, nil
}

// leastReplacement returns the lowest fees of a replacement that every node takes.
func (s *slot) leastReplacement() Fee {
	f := s.lastEntry().fee
	return Fee{Tip: raisedFee(f.Tip), FeeCap: raisedFee(f.FeeCap)}
}

// raisedFee returns v and an eighth more, rounded up, and 1 more at least: nodes ask for a tenth,
// of both fees.
func raisedFee(v *big.Int) *big.Int {
	out := new(big.Int).Mul(v, big.NewInt(9))
	out.Rsh(out.Add(out, big.NewInt(7)), 3)
	return largest(out, new(big.Int).Add(v, big.NewInt(1)))
}

// canRise reports whether there is room, in the slot and below the limit, for a replacement.
func (s *slot) canRise() bool {
	room := maxEntries
	if !s.isClosing() {
		room -= closingEntries
	}
	return len(s.entries) < room && s.leastReplacement().FeeCap.Cmp(s.maxFee) <= 0
}

// lastTurn returns the place of the alternative that goes out last.
func (s *slot) lastTurn() int { return s.turns[len(s.turns)-1].entryIndex }

// firstPaying returns the lowest alternative from a place on that pays the base fee at this head;
// ok is false where none does.
func (s *slot) firstPaying(from int, head block) (i int, ok bool) {
	for i = from; i < len(s.entries); i++ {
		if s.entries[i].fee.paysBaseFee(head) {
			return i, true
		}
	}
	return 0, false
}

// hasRoomForTurn reports whether there is room for another turn of the same alternative. Each
// alternative above it keeps its room.
func (s *slot) hasRoomForTurn() bool { return len(s.turns)+MaxAlternatives < maxTurns }

// isStalled reports whether a transaction that waits at this head may wait for want of a higher
// fee.
func (s *slot) isStalled(head block, after uint64) bool {
	last := s.lastEntry()
	waited := head.number >= last.height && head.number-last.height >= after // a sum could be above 64 bits
	return waited || !last.fee.paysBaseFee(head)
}

// freeHeight returns a height at which the slot's nonce was free, of a block that was deep when it
// was chosen: the count after the last deep block was the nonce.
func (s *slot) freeHeight(f Finality) uint64 {
	height := s.entries[0].height
	if f.usesTag() {
		return height - min(height, maxTagLag)
	}
	return height - min(height, f.blocks)
}

// maxTagLag is how many blocks the "finalized" one may be behind the head: three epochs and more.
const maxTagLag = 128

// repeatLast returns the kept bytes of a slot with its last transaction once more, as one that
// waits since this head: it waits for another nonce, and not for a higher fee. Half of the room
// stays for higher fees.
func (s *slot) repeatLast(head block, kept []byte) []byte {
	if len(s.entries) >= maxEntries/2 {
		return kept
	}
	e := s.lastEntry()
	e.height = head.number
	return e.append(bytes.Clone(kept))
}
