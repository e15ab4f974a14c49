package evm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Intent is one transaction that an account wants, without a nonce, fees or a signature: a
// [SigningClient] chooses these, or asks for them. Its text is the payload of a batch, a JSON
// object with the fields "to" (which is required; null creates a contract), "value" and
// "maxFeePerGas" (decimal text, in wei), "data" (0x and hex digits) and "gas" (a number).
// docs/evm.md#intents has an example.
type Intent struct {
	// To is the account that is paid or called, 0x and 40 hex digits; mixed case must have the
	// checksum of EIP-55. "" creates a contract of Data.
	To string
	// Value is the amount that To gets, in wei, of at most 256 bits. nil means 0.
	Value *big.Int
	// Data is the data of the call, or the code that creates a contract.
	Data []byte
	// Gas is the most gas that the transaction may use; 0 means that the node estimates it. With
	// an estimate, a call that reverts is rejected and costs nothing, and the batch's salt has
	// room.
	Gas uint64
	// MaxFeePerGas is the most that a unit of gas may ever cost, in wei, also in replacements. It
	// is at most [SignerOptions].MaxFeePerGas; nil means that value.
	MaxFeePerGas *big.Int
}

// Batch returns the batch of an intent. id is the caller's own, unique in the store: the chain
// sees nothing of it but a salt (docs/evm.md#the-salt-of-an-intent). account signs and pays; it is
// 0x and 40 hex digits, as To is, and the batch's service is its lower-case form. The error is a
// [*batch.InputError]. [SigningClient.Check] tests the conditions that depend on the client's
// options.
func (i Intent) Batch(id batch.ID, account string) (batch.Batch, error) {
	from, err := evmtx.ParseAddress(account)
	if err != nil {
		return batch.Batch{}, inField("service", err)
	}
	doc := intentDoc{Data: hexText(i.Data), Gas: i.Gas}
	if i.To != "" {
		doc.To = &i.To
	}
	for _, n := range [...]struct {
		v    *big.Int
		into *string
	}{{i.Value, &doc.Value}, {i.MaxFeePerGas, &doc.MaxFeePerGas}} {
		if n.v != nil {
			*n.into = n.v.String()
		}
	}
	payload, err := json.Marshal(doc)
	if err != nil {
		return batch.Batch{}, err
	}
	b := batch.Batch{ID: id, Service: serviceOf(from), Payload: payload}
	if _, err := parseIntent(payload); err != nil {
		return batch.Batch{}, withKey(err, b.Key())
	}
	return b, nil
}

// intentDoc is the JSON object of an intent's payload.
type intentDoc struct {
	To           *string `json:"to"`
	Value        string  `json:"value,omitzero"`
	Data         string  `json:"data,omitzero"`
	Gas          uint64  `json:"gas,omitzero"`
	MaxFeePerGas string  `json:"maxFeePerGas,omitzero"`
}

var intentFields = []string{"to", "value", "data", "gas", "maxFeePerGas"}

func hexText(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return "0x" + hex.EncodeToString(b)
}

// intent is the content of an intent's payload.
type intent struct {
	to     *evmtx.Address
	value  *big.Int
	data   []byte
	gas    uint64   // 0 means that the node estimates it
	maxFee *big.Int // nil means the client's limit
}

// parseIntent reads a payload. Each field may occur once, with its exact name, and no other field
// may occur: a payload with a misspelt "value" must not become a payment of nothing.
func parseIntent(payload []byte) (intent, error) {
	var in intent
	if len(payload) > 2*maxTxBytes {
		return in, &batch.InputError{Field: "payload", Value: strconv.Itoa(len(payload)) + " bytes", Want: strconv.Itoa(2*maxTxBytes) + " at most"}
	}
	fields, err := readObject(payload)
	if err != nil {
		return in, err
	}
	for name := range fields {
		if !slices.Contains(intentFields, name) {
			return in, &batch.InputError{Field: batch.Excerpt(name, 80), Want: "one of the fields of an intent: " + strings.Join(intentFields, ", ")}
		}
	}
	to, there := fields["to"]
	if !there {
		return in, &batch.InputError{Field: "to", Want: "an account, or null to create a contract"}
	}
	if string(to) != "null" {
		text, err := readText("to", to)
		if err != nil {
			return in, err
		}
		address, err := evmtx.ParseAddress(text)
		if err != nil {
			return in, inField("to", err)
		}
		in.to = &address
	}
	if in.value, err = readWei("value", fields["value"], 256); err != nil {
		return in, err
	}
	if in.value == nil {
		in.value = new(big.Int)
	}
	if in.data, err = readData(fields["data"]); err != nil {
		return in, err
	}
	if gas, there := fields["gas"]; there {
		if in.gas, err = strconv.ParseUint(string(gas), 10, 64); err != nil || in.gas == 0 {
			return in, &batch.InputError{Field: "gas", Value: batch.Excerpt(string(gas), 80), Want: "a whole number from 1 on; without it the node estimates"}
		}
	}
	if in.maxFee, err = readWei("maxFeePerGas", fields["maxFeePerGas"], feeBits); err != nil {
		return in, err
	}
	if in.maxFee != nil && in.maxFee.Sign() == 0 {
		return in, &batch.InputError{Field: "maxFeePerGas", Value: "0", Want: "1 or more"}
	}
	if in.to == nil && len(in.data) == 0 {
		return in, &batch.InputError{Field: "data", Want: "the code of a contract, where \"to\" is null"}
	}
	return in, nil
}

// readObject reads one JSON object with nothing after it, in which each name occurs once.
func readObject(payload []byte) (map[string]json.RawMessage, error) {
	fail := func(err error) error {
		return &batch.InputError{Field: "payload", Want: "one JSON object, an intent", Err: err}
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fail(err)
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fail(err)
		}
		name, _ := t.(string)
		if _, twice := fields[name]; twice {
			return nil, &batch.InputError{Field: batch.Excerpt(name, 80), Want: "each field once"}
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fail(err)
		}
		fields[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fail(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fail(fmt.Errorf("something follows the object"))
	}
	return fields, nil
}

func readText(field string, raw json.RawMessage) (text string, err error) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", &batch.InputError{Field: field, Value: batch.Excerpt(string(raw), 80), Want: "text in quotes"}
	}
	return text, nil
}

// readWei reads a number of wei. It returns nil if the field is missing.
func readWei(field string, raw json.RawMessage, bits int) (*big.Int, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // none
	}
	text, err := readText(field, raw)
	if err != nil {
		return nil, err
	}
	v, ok := new(big.Int), len(text) <= 80
	if ok {
		v, ok = v.SetString(text, 10)
	}
	if !ok || v.Sign() < 0 || v.BitLen() > bits || v.String() != text {
		return nil, &batch.InputError{
			Field: field, Value: batch.Excerpt(text, 80),
			Want: fmt.Sprintf("a whole number of wei in decimal digits, without sign or leading zeros, of at most %d bits", bits),
		}
	}
	return v, nil
}

func readData(raw json.RawMessage) ([]byte, error) {
	if raw == nil {
		return nil, nil
	}
	text, err := readText("data", raw)
	if err != nil {
		return nil, err
	}
	digits, prefixed := strings.CutPrefix(text, "0x")
	data, err := hex.DecodeString(digits)
	if err != nil || !prefixed {
		return nil, &batch.InputError{Field: "data", Value: batch.Excerpt(text, 80), Want: "0x and an even number of hex digits"}
	}
	return data, nil
}

// inField sets the field that an input error names.
func inField(field string, err error) error {
	if in, ok := errors.AsType[*batch.InputError](err); ok {
		in.Field = field
	}
	return err
}

// withKey sets the key of the batch in an input error.
func withKey(err error, key batch.Key) error {
	if in, ok := errors.AsType[*batch.InputError](err); ok {
		in.Key = key
	}
	return err
}

// tx returns the transaction of an intent, without a signature.
func (i intent) tx(chain, nonce, gas uint64, f Fee) *evmtx.Tx {
	return &evmtx.Tx{
		Type: evmtx.DynamicFee, ChainID: chain, Nonce: nonce, Tip: f.Tip, FeeCap: f.FeeCap, Gas: gas, To: i.to, Value: i.value, Data: i.data,
	}
}
