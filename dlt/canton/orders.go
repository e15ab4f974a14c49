package canton

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// OrderCommands is the result of the application's func for one order.
type OrderCommands struct {
	// Commands are in the order in which they are to take effect, at least one. Each is a JSON
	// object as in a payload: {"ExerciseCommand": {...}}.
	Commands []json.RawMessage
	// DisclosedContracts are those that the commands need. A contract that several orders need is
	// sent once.
	DisclosedContracts []json.RawMessage
}

// OrderBuilder is a [order.RoundBuilder] for Canton: the application turns each order of a
// party into commands, and the OrderBuilder makes one submission of them. All of them take
// effect, or none. The same orders, in the same order and round, give the same bytes and the
// same command id. Its methods may be called concurrently if the application's func may.
type OrderBuilder struct {
	commands func(ctx context.Context, o order.Order) (OrderCommands, error)
	options  OrderBuilderOptions
}

var _ order.RoundBuilder = (*OrderBuilder)(nil)

// OrderBuilderOptions are the options of [NewOrderBuilder]. The zero value of each
// field is its default.
type OrderBuilderOptions struct {
	// SubmissionFields go into every submission beside the commands: workflowId, readAs,
	// synchronizerId and the other fields of a payload. Defaults to none.
	SubmissionFields map[string]json.RawMessage
	// MaxBody is the MaxBody of the client's Options. Orders that make a larger submission are
	// divided. Defaults to [DefaultMaxBody].
	MaxBody int
}

// NewOrderBuilder makes a builder. commands makes the commands of one order, the same each time.
// If its error wraps [batch.ErrInvalidInput], nothing can be made of this order; after any other
// error commands is called again later. nil options mean the defaults. The error is a
// [*batch.InputError].
func NewOrderBuilder(commands func(ctx context.Context, o order.Order) (OrderCommands, error), o *OrderBuilderOptions) (*OrderBuilder, error) {
	if commands == nil {
		return nil, &batch.InputError{Field: "commands", Want: "a func"}
	}
	b := &OrderBuilder{commands: commands}
	if o != nil {
		b.options = *o
	}
	if b.options.MaxBody == 0 {
		b.options.MaxBody = DefaultMaxBody
	}
	b.options.SubmissionFields = maps.Clone(b.options.SubmissionFields)
	for _, name := range slices.Sorted(maps.Keys(b.options.SubmissionFields)) {
		if !payloadFields[name] || name == "commands" || name == "disclosedContracts" {
			return nil, &batch.InputError{Field: "OrderBuilderOptions.SubmissionFields", Value: batch.Excerpt(name, 64), Want: "a field that goes with the commands of every order"}
		}
		if !json.Valid(b.options.SubmissionFields[name]) {
			return nil, &batch.InputError{Field: "OrderBuilderOptions.SubmissionFields." + name, Want: "JSON"}
		}
	}
	return b, nil
}

// Build implements [order.Builder].
func (b *OrderBuilder) Build(ctx context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
	return b.BuildRound(ctx, party, orders, 0)
}

// BuildRound implements [order.RoundBuilder]. In another round the same orders get another command
// id, because the next batch must not have the id of one that had no effect.
func (b *OrderBuilder) BuildRound(ctx context.Context, party batch.ServiceID, orders []order.Order, round int64) (batch.Batch, error) {
	var commands, disclosed []json.RawMessage
	seen := map[string]bool{}
	for _, o := range orders {
		c, err := b.commands(ctx, o)
		if err == nil {
			err = c.check()
		}
		if err != nil {
			return batch.Batch{}, fmt.Errorf("canton: commands of order %s: %w", batch.Excerpt(string(o.ID), 64), err)
		}
		commands = append(commands, c.Commands...)
		for _, d := range c.DisclosedContracts {
			if !seen[string(d)] {
				seen[string(d)] = true
				disclosed = append(disclosed, d)
			}
		}
	}
	fields := map[string]any{"commands": commands}
	if len(disclosed) > 0 {
		fields["disclosedContracts"] = disclosed
	}
	for name, v := range b.options.SubmissionFields {
		fields[name] = v
	}
	var payload bytes.Buffer
	enc := json.NewEncoder(&payload)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil { // the names are sorted, so that the bytes are always the same
		return batch.Batch{}, fmt.Errorf("canton: encode orders: %w", err)
	}
	out := batch.Batch{ID: orderCommandID(party, orders, round), Service: party, Payload: bytes.TrimSpace(payload.Bytes())}
	if _, err := parsePayload(out.Key(), out.Payload); err != nil {
		return batch.Batch{}, err
	}
	if most := b.options.MaxBody - maxAddedBytes; len(out.Payload) > most {
		return batch.Batch{}, &batch.InputError{
			Key: out.Key(), Field: "Payload", Value: strconv.Itoa(len(out.Payload)) + " bytes", Want: "at most " + strconv.Itoa(most) + " bytes",
		}
	}
	return out, nil
}

func (c OrderCommands) check() error {
	if len(c.Commands) == 0 {
		return &batch.InputError{Field: "OrderCommands.Commands", Want: "at least one"}
	}
	for _, raw := range slices.Concat(c.Commands, c.DisclosedContracts) {
		if !json.Valid(raw) {
			return &batch.InputError{Field: "OrderCommands", Want: "JSON"}
		}
	}
	return nil
}

// orderCommandID returns the command id for these orders, in this order.
func orderCommandID(party batch.ServiceID, orders []order.Order, round int64) batch.ID {
	h := sha256.New()
	add := func(s string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	add("dltbatch orders")
	add(string(party))
	h.Write(binary.AppendVarint(nil, round))
	for _, o := range orders {
		add(string(o.ID))
	}
	return batch.ID("orders-" + hex.EncodeToString(h.Sum(nil)))
}
