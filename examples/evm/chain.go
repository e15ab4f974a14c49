package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// errNode says that the node did not carry out a request.
var errNode = errors.New("the node")

// nodeClient sends requests to the node without the library.
type nodeClient struct {
	url     string
	http    *http.Client
	chainID uint64
	genesis string
}

// dial connects to the node and reads its chain id.
func dial(ctx context.Context, url string) (*nodeClient, error) {
	c := &nodeClient{url: url, http: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}}
	var id quantity
	var first block
	if err := c.call(ctx, &id, "eth_chainId"); err != nil {
		return nil, err
	}
	if err := c.call(ctx, &first, "eth_getBlockByNumber", quantity(0), false); err != nil {
		return nil, err
	}
	c.chainID, c.genesis = uint64(id), first.Hash
	return c, nil
}

func (c *nodeClient) close() { c.http.CloseIdleConnections() }

// call calls a JSON-RPC method of the node.
func (c *nodeClient) call(ctx context.Context, out any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errNode, err)
	}
	defer resp.Body.Close()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%w: %s: %w", errNode, method, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%w: %s: %s", errNode, method, answer.Error.Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, out)
}

// mineUntilDone has the node make blocks until ctx is done.
func (c *nodeClient) mineUntilDone(ctx context.Context) {
	tick := time.NewTicker(blockTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = c.call(ctx, nil, "evm_mine") // the node may be down at the moment
		}
	}
}

// quantity is an integer in the JSON form that nodes use.
type quantity uint64

func (n quantity) MarshalText() ([]byte, error) {
	return []byte("0x" + strconv.FormatUint(uint64(n), 16)), nil
}

func (n *quantity) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(strings.TrimPrefix(string(text), "0x"), 16, 64)
	*n = quantity(v)
	return err
}

// block is a block with its transactions in their order.
type block struct {
	Number       quantity
	Hash         string
	Transactions []transaction
}

type transaction struct {
	Hash, From, To string
	Nonce          quantity
	Input          string
}

func (c *nodeClient) head(ctx context.Context) (quantity, error) {
	var n quantity
	err := c.call(ctx, &n, "eth_blockNumber")
	return n, err
}

func (c *nodeClient) block(ctx context.Context, n quantity) (block, error) {
	var b block
	err := c.call(ctx, &b, "eth_getBlockByNumber", n, true)
	if err == nil && (b.Number != n || b.Hash == "") {
		err = fmt.Errorf("%w: it answers with block %d instead of %d", errNode, b.Number, n)
	}
	return b, err
}

// readChain reads the whole chain.
func (c *nodeClient) readChain(ctx context.Context) (all []block, err error) {
	head, err := c.head(ctx)
	if err != nil {
		return nil, err
	}
	return c.readBlocks(ctx, 1, head)
}

// readBlocks reads the blocks from one height to another.
func (c *nodeClient) readBlocks(ctx context.Context, from, to quantity) (all []block, err error) {
	for n := max(from, 1); n <= to; n++ {
		b, err := c.block(ctx, n)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// countTransactions counts the transactions in blocks.
func countTransactions(blocks []block) (n int) {
	for _, b := range blocks {
		n += len(b.Transactions)
	}
	return n
}

func (c *nodeClient) balance(ctx context.Context, address string) (*big.Int, error) {
	var text string
	if err := c.call(ctx, &text, "eth_getBalance", address, "latest"); err != nil {
		return nil, err
	}
	v, ok := new(big.Int).SetString(strings.TrimPrefix(text, "0x"), 16)
	if !ok {
		return nil, fmt.Errorf("%w: eth_getBalance: %.40q", errNode, text)
	}
	return v, nil
}
