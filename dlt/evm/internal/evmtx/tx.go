package evmtx

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/dltbatch/dltbatch/batch"
)

// Errors about the bytes of a transaction.
var (
	// ErrEncoding means that the bytes are not canonical RLP, or not the fields of the type.
	ErrEncoding = errors.New("not the canonical encoding of a transaction")
	// ErrTrailing means that bytes follow the transaction.
	ErrTrailing = errors.New("bytes follow the transaction")
	// ErrType means that the transaction has a type that this package does not know.
	ErrType = errors.New("transaction type not supported")
	// ErrSignature means that r, s or v is out of range, or that no key made this signature.
	ErrSignature = errors.New("invalid signature")
)

// The types of transactions.
const (
	Legacy     byte = 0
	AccessList byte = 1
	DynamicFee byte = 2
	Blob       byte = 3
	SetCode    byte = 4
)

// MaxChainID is the largest id of a chain (EIP-2294).
const MaxChainID = math.MaxUint64/2 - 36

// Tx is a transaction. A nil number means 0.
type Tx struct {
	Type byte
	// ChainID is 0 only in a legacy transaction without replay protection.
	ChainID uint64
	Nonce   uint64
	// In types 0 and 1, Tip and FeeCap are both the gas price.
	Tip, FeeCap *big.Int
	Gas         uint64
	To          *Address // nil creates a contract
	Value       *big.Int
	Data        []byte
	Access      []AccessTuple   // types 1 to 4
	Auths       []Authorization // type 4

	// BlobFeeCap is the most for a unit of blob gas, in wei; each blob uses 131072 units.
	// BlobHashes are the versioned hashes of the blobs' commitments. Type 3 alone has both.
	BlobFeeCap *big.Int
	BlobHashes []Hash
	// Sidecar is nil for other types, and if the bytes of type 3 had none.
	Sidecar *Sidecar

	YParity byte // parity of the signature: 0 or 1
	R, S    *big.Int
}

// AccessTuple is an account and slots of its storage.
type AccessTuple struct {
	Address Address
	Keys    []Hash
}

// Authorization lets an account have the code of Address. A chain skips an authorization that is
// not valid: the transaction stays valid.
type Authorization struct {
	ChainID *big.Int
	Address Address
	Nonce   uint64
	YParity byte
	R, S    *big.Int
}

// Decode reads one transaction, with its sidecar or without. Of the signature it checks only v:
// see [Tx.Sender]. The transaction's sidecar shares raw's memory. Together with an error that
// wraps [ErrTrailing] it returns the transaction, too.
func Decode(raw []byte) (*Tx, error) {
	if len(raw) == 0 {
		return nil, encodingError("transaction", errEndsEarly)
	}
	tx := &Tx{Type: raw[0]}
	body := raw[1:]
	switch {
	case raw[0] >= 0xc0:
		tx.Type, body = Legacy, raw
	case raw[0] >= 0x80:
		return nil, encodingError("transaction", errWrongKind)
	case raw[0] < AccessList || raw[0] > SetCode:
		return nil, &batch.InputError{Field: "type", Value: strconv.Itoa(int(raw[0])), Want: "0 to 4", Err: ErrType}
	}
	list, fields, rest, err := splitFirstItem(body)
	if err == nil && !list {
		err = errWrongKind
	}
	if err != nil {
		return nil, encodingError("transaction", err)
	}
	r := &rlpReader{rest: fields}
	if first, _, _, err := splitFirstItem(fields); tx.Type == Blob && err == nil && first {
		tx.Sidecar = new(Sidecar)
		r.tuple("transaction", tx.decodeFields)
		tx.Sidecar.decode(r)
	} else {
		tx.decodeFields(r)
	}
	if r.refuseRest("transaction"); r.err != nil {
		return nil, encodingError(r.field, r.err)
	}
	if tx.ChainID > MaxChainID {
		return nil, &batch.InputError{Field: "chain_id", Value: strconv.FormatUint(tx.ChainID, 10), Want: "at most " + strconv.FormatUint(MaxChainID, 10), Err: ErrEncoding}
	}
	if tx.Sidecar != nil {
		if err := tx.Sidecar.checkHashes(tx.BlobHashes); err != nil {
			return nil, err
		}
	}
	if len(rest) > 0 {
		return tx, &batch.InputError{Field: "transaction", Value: fmt.Sprintf("%d bytes", len(raw)), Want: fmt.Sprintf("%d: nothing behind it", len(raw)-len(rest)), Err: ErrTrailing}
	}
	return tx, nil
}

// encodingError is the error about a field that the reader of RLP has refused.
func encodingError(field string, err error) error {
	if in, ok := errors.AsType[*batch.InputError](err); ok {
		return in
	}
	return &batch.InputError{Field: field, Want: "the canonical RLP of a signed transaction", Err: fmt.Errorf("%w: %w", ErrEncoding, err)}
}

func (tx *Tx) decodeFields(r *rlpReader) {
	if tx.Type != Legacy {
		tx.ChainID = r.uint("chain_id")
	}
	tx.Nonce = r.uint("nonce")
	tx.Tip = r.big("fees")
	tx.FeeCap = tx.Tip
	if tx.Type >= DynamicFee {
		tx.FeeCap = r.big("max_fee_per_gas")
	}
	tx.Gas = r.uint("gas")
	if to := r.bytes("to"); len(to) == len(Address{}) {
		a := Address(to)
		tx.To = &a
	} else if len(to) > 0 {
		r.refuse("to", strconv.Itoa(len(to))+" bytes", "20 bytes, or none to create a contract")
	}
	tx.Value = r.big("value")
	tx.Data = append([]byte(nil), r.bytes("data")...)
	if tx.Type != Legacy {
		tx.Access = readAccess(r)
	}
	switch tx.Type {
	case Blob:
		tx.BlobFeeCap = r.big("max_fee_per_blob_gas")
		r.list("blob_versioned_hashes", func(part *rlpReader, _ int) {
			var h Hash
			part.fixedBytes("blob_versioned_hashes", h[:])
			tx.BlobHashes = append(tx.BlobHashes, h)
		})
	case SetCode:
		tx.Auths = readAuths(r)
	}
	v := r.uint("v")
	tx.R, tx.S = r.big("r"), r.big("s")
	if r.err == nil && !tx.setV(v) {
		want := "0 or 1"
		if tx.Type == Legacy {
			want = "27 or 28, or 37 at least (EIP-155)"
		}
		r.refuse("v", strconv.FormatUint(v, 10), want)
	}
}

// setV sets the parity from v, and in a legacy transaction also the chain (EIP-155). It reports
// whether v is valid.
func (tx *Tx) setV(v uint64) bool {
	switch {
	case tx.Type != Legacy:
		tx.YParity = byte(v & 1)
		return v <= 1
	case v == 27 || v == 28:
		tx.YParity = byte(v - 27)
		return true
	case v >= 37: // 35 and 36 would be chain 0
		tx.ChainID, tx.YParity = (v-35)/2, byte((v-35)&1)
		return true
	}
	return false
}

func readAccess(r *rlpReader) (out []AccessTuple) {
	r.list("access_list", func(part *rlpReader, i int) {
		field := "access_list[" + strconv.Itoa(i) + "]"
		part.tuple(field, func(t *rlpReader) {
			var a AccessTuple
			t.fixedBytes(field+".address", a.Address[:])
			t.list(field+".storage_keys", func(keys *rlpReader, _ int) {
				var k Hash
				keys.fixedBytes(field+".storage_keys", k[:])
				a.Keys = append(a.Keys, k)
			})
			out = append(out, a)
		})
	})
	return out
}

func readAuths(r *rlpReader) (out []Authorization) {
	r.list("authorization_list", func(part *rlpReader, i int) {
		field := "authorization_list[" + strconv.Itoa(i) + "]"
		part.tuple(field, func(t *rlpReader) {
			a := Authorization{ChainID: t.big(field + ".chain_id")}
			t.fixedBytes(field+".address", a.Address[:])
			a.Nonce = t.uint(field + ".nonce")
			parity := t.number(field+".y_parity", 1)
			if len(parity) == 1 {
				a.YParity = parity[0]
			}
			a.R, a.S = t.big(field+".r"), t.big(field+".s")
			out = append(out, a)
		})
	})
	return out
}

// Encode returns the bytes of the signed transaction, as blocks have them: without a sidecar.
func (tx *Tx) Encode() []byte {
	v := uint64(tx.YParity)
	if tx.Type == Legacy {
		v += 27
		if tx.ChainID != 0 {
			v += 2*tx.ChainID + 8
		}
	}
	items := tx.appendUnsigned(nil)
	items = appendBig(appendBig(appendUint(items, v), tx.R), tx.S)
	return tx.wrapInType(items)
}

func (tx *Tx) wrapInType(items []byte) []byte {
	if tx.Type == Legacy {
		return appendList(nil, items)
	}
	return appendList([]byte{tx.Type}, items)
}

func (tx *Tx) appendUnsigned(b []byte) []byte {
	if tx.Type != Legacy {
		b = appendUint(b, tx.ChainID)
	}
	b = appendUint(b, tx.Nonce)
	if tx.Type >= DynamicFee {
		b = appendBig(b, tx.Tip)
	}
	b = appendUint(appendBig(b, tx.FeeCap), tx.Gas)
	if tx.To == nil {
		b = appendBytes(b, nil)
	} else {
		b = appendBytes(b, tx.To[:])
	}
	b = appendBytes(appendBig(b, tx.Value), tx.Data)
	if tx.Type != Legacy {
		var list []byte
		for _, a := range tx.Access {
			var keys []byte
			for _, k := range a.Keys {
				keys = appendBytes(keys, k[:])
			}
			list = appendList(list, appendList(appendBytes(nil, a.Address[:]), keys))
		}
		b = appendList(b, list)
	}
	switch tx.Type {
	case Blob:
		var list []byte
		for _, h := range tx.BlobHashes {
			list = appendBytes(list, h[:])
		}
		b = appendList(appendBig(b, tx.BlobFeeCap), list)
	case SetCode:
		var list []byte
		for _, a := range tx.Auths {
			one := appendUint(appendBytes(appendBig(nil, a.ChainID), a.Address[:]), a.Nonce)
			one = appendBig(appendBig(appendUint(one, uint64(a.YParity)), a.R), a.S)
			list = appendList(list, one)
		}
		b = appendList(b, list)
	}
	return b
}

// Hash returns the transaction's hash, which is its id on the chain.
func (tx *Tx) Hash() Hash { return Keccak(tx.Encode()) }

// SigningHash returns the hash that the sender signs.
func (tx *Tx) SigningHash() Hash { return Keccak(tx.SigningBytes()) }

// SigningBytes returns the bytes whose hash the sender signs.
func (tx *Tx) SigningBytes() []byte {
	items := tx.appendUnsigned(nil)
	if tx.Type == Legacy && tx.ChainID != 0 {
		items = appendUint(appendUint(appendUint(items, tx.ChainID), 0), 0)
	}
	return tx.wrapInType(items)
}

// Sign signs the transaction with a key. In types 0 and 1 FeeCap is the gas price.
func (tx *Tx) Sign(key *secp256k1.PrivateKey) {
	hash := tx.SigningHash()
	sig := ecdsa.SignCompact(key, hash[:], false)
	tx.YParity = sig[0] - 27
	tx.R, tx.S = new(big.Int).SetBytes(sig[1:33]), new(big.Int).SetBytes(sig[33:])
}

// Sender recovers the account that signed. s must be in the lower half of the order (EIP-2):
// otherwise a stranger could make of the transaction a second valid one with another hash.
func (tx *Tx) Sender() (Address, error) { return signedBy(tx.SigningHash(), tx.YParity, tx.R, tx.S) }

// Authority recovers the account that signed the authorization (EIP-7702). Chains take no other
// signature.
func (a *Authorization) Authority() (Address, error) {
	if a.YParity > 1 {
		return Address{}, &batch.InputError{Field: "y_parity", Value: strconv.Itoa(int(a.YParity)), Want: "0 or 1", Err: ErrSignature}
	}
	return signedBy(a.SigningHash(), a.YParity, a.R, a.S)
}

// SigningHash returns the hash that the account signs.
func (a *Authorization) SigningHash() Hash {
	return Keccak(appendList([]byte{5}, appendUint(appendBytes(appendBig(nil, a.ChainID), a.Address[:]), a.Nonce)))
}

// signedBy recovers the account that signed a hash.
func signedBy(hash Hash, parity byte, sigR, sigS *big.Int) (Address, error) {
	fail := func(field string, v *big.Int, want string) (Address, error) {
		return Address{}, &batch.InputError{Field: field, Value: batch.Excerpt(v.String(), 80), Want: want, Err: ErrSignature}
	}
	r, ok := parseScalar(sigR)
	if !ok {
		return fail("r", sigR, "1 to the order of secp256k1")
	}
	s, ok := parseScalar(sigS)
	if !ok {
		return fail("s", sigS, "1 to the order of secp256k1")
	}
	if s.IsOverHalfOrder() {
		return fail("s", sigS, "the lower half of the order of secp256k1 (EIP-2)")
	}
	var compact [65]byte
	compact[0] = 27 + parity
	r.PutBytesUnchecked(compact[1:33])
	s.PutBytesUnchecked(compact[33:])
	key, _, err := ecdsa.RecoverCompact(compact[:], hash[:])
	if err != nil {
		return fail("r", sigR, "a signature that a key has made")
	}
	return KeyAddress(key), nil
}

// parseScalar reads a number, and reports whether it is from 1 to the order of the curve.
func parseScalar(v *big.Int) (secp256k1.ModNScalar, bool) {
	var s secp256k1.ModNScalar
	if v == nil || v.Sign() <= 0 || v.BitLen() > 256 {
		return s, false
	}
	overflow := s.SetByteSlice(v.FillBytes(make([]byte, 32)))
	return s, !overflow
}
