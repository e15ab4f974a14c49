package splintertest

import (
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// The errors of verify and decodeList.
var (
	errBody      = errors.New("splintertest: invalid body")       // answered with 400
	errNoBatches = errors.New("splintertest: no valid batches")   // answered with 400
	errServer    = errors.New("splintertest: the server's error") // answered with 500
)

// submitted is a batch as it was posted.
type submitted struct {
	id     batch.ID
	signer string
	raw    []byte // the bytes of the header
	ids    []string
	txs    []transaction
	fault  BatchFault
}

type transaction struct {
	id, family, version, batcher, signer, digest string
	header, payload                              []byte
	addresses                                    []string
	isHeaderBroken                               bool // true if the header cannot be decoded
}

// fieldKinds has the kind of each field of a message, at the field's number: t for text, b for
// bytes, n for a number, and a blank for an unknown field.
type fieldKinds string

// The kinds of the messages. A field of another kind, or text that is not UTF-8, makes the whole
// message undecodable, as in rust-protobuf.
const (
	listKinds              fieldKinds = " b"
	batchKinds             fieldKinds = " btbn"
	batchHeaderKinds       fieldKinds = " tt"
	transactionKinds       fieldKinds = " btb"
	transactionHeaderKinds fieldKinds = " ttttttt tt"
)

// eachField calls f for every known field of text or bytes, and skips the others.
func eachField(b []byte, known fieldKinds, f func(num protowire.Number, value []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		kind := byte(' ')
		if int(num) < len(known) {
			kind = known[num]
		}
		if (kind == 'n' && typ != protowire.VarintType) || (strings.ContainsRune("tb", rune(kind)) && typ != protowire.BytesType) {
			return fmt.Errorf("field %d is of another type", num)
		}
		if kind == ' ' || kind == 'n' {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind == 't' && !utf8.Valid(v) {
			return fmt.Errorf("field %d is no UTF-8", num)
		}
		if err := f(num, v); err != nil {
			return err
		}
	}
	return nil
}

// decodeList reads a BatchList and the headers of its batches.
func decodeList(body []byte) (out []*submitted, err error) {
	err = eachField(body, listKinds, func(_ protowire.Number, v []byte) error {
		b, err := decodeBatch(v)
		out = append(out, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	return out, nil
}

func decodeBatch(raw []byte) (*submitted, error) {
	b := &submitted{}
	err := eachField(raw, batchKinds, func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			b.raw = slices.Clone(v)
		case 2:
			b.id = batch.ID(v)
		case 3:
			t, err := decodeTransaction(v)
			if err != nil {
				return err
			}
			b.txs = append(b.txs, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachField(b.raw, batchHeaderKinds, func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			b.signer = string(v)
		case 2:
			b.ids = append(b.ids, string(v))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := hex.DecodeString(b.signer); err != nil {
		return nil, fmt.Errorf("signer: %w", err)
	}
	return b, nil
}

func decodeTransaction(raw []byte) (transaction, error) {
	var t transaction
	err := eachField(raw, transactionKinds, func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			t.header = slices.Clone(v)
		case 2:
			t.id = string(v)
		case 3:
			t.payload = slices.Clone(v)
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	t.isHeaderBroken = eachField(t.header, transactionHeaderKinds, func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			t.batcher = string(v)
		case 3:
			t.family = string(v)
		case 4:
			t.version = string(v)
		case 5, 7:
			t.addresses = append(t.addresses, string(v))
		case 9:
			t.digest = string(v)
		case 10:
			t.signer = string(v)
		}
		return nil
	}) != nil
	return t, nil
}

// verifyBatches checks all batches. The first error decides for the whole list.
func verifyBatches(bs []*submitted) error {
	for _, b := range bs {
		if err := b.verify(); err != nil {
			return err
		}
	}
	return nil
}

func (b *submitted) verify() error {
	if err := verifySignature(b.signer, b.raw, string(b.id)); err != nil {
		return err
	}
	if len(b.ids) != len(b.txs) {
		return fmt.Errorf("%w: transaction count", errNoBatches)
	}
	for i, t := range b.txs {
		if t.isHeaderBroken {
			return fmt.Errorf("%w: transaction header", errServer)
		}
		for _, text := range append([]string{t.batcher, t.digest, t.signer}, t.addresses...) {
			if _, err := hex.DecodeString(text); err != nil {
				return fmt.Errorf("%w: transaction header: %w", errServer, err)
			}
		}
		switch {
		case b.ids[i] != t.id:
			return fmt.Errorf("%w: transaction order", errNoBatches)
		case !strings.EqualFold(t.batcher, b.signer):
			return fmt.Errorf("%w: batcher key", errNoBatches)
		}
		if err := verifySignature(t.signer, t.header, t.id); err != nil {
			return err
		}
		if sum := sha512.Sum512(t.payload); !strings.EqualFold(t.digest, hex.EncodeToString(sum[:])) {
			return fmt.Errorf("%w: payload digest", errNoBatches)
		}
	}
	return nil
}

// verifySignature returns different errors for a malformed signature (500) and a wrong one (400).
func verifySignature(key string, message []byte, signature string) error {
	raw, err := hex.DecodeString(signature)
	if err != nil || len(raw) != 64 {
		return fmt.Errorf("%w: signature is not 64 bytes of hex", errServer)
	}
	err = sawtooth.Verify(strings.ToLower(key), message, strings.ToLower(signature))
	var inputErr *batch.InputError
	if errors.As(err, &inputErr) && inputErr.Field == "signer_public_key" {
		return fmt.Errorf("%w: %w", errServer, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoBatches, err)
	}
	return nil
}
