package evmtest

import (
	"encoding/binary"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// transaction is signed bytes that a node read.
type transaction struct {
	*evmtx.Tx
	raw  []byte // without blobs
	size int    // of the bytes with their blobs; 0 where they had none
	hash evmtx.Hash
	from evmtx.Address
}

// blobPrice is the price of a unit of blob gas, in wei, and maxBlobs is how many blobs a block has
// at most.
const (
	blobPrice = 1
	maxBlobs  = 9
)

// blobGas returns the blob gas of the transaction.
func (tx *transaction) blobGas() uint64 { return evmtx.BlobSize * uint64(len(tx.BlobHashes)) }

// cost returns the balance that the account needs for the transaction to be mined.
func (tx *transaction) cost() *big.Int {
	c := new(big.Int).SetUint64(tx.Gas)
	c.Mul(c, tx.FeeCap).Add(c, tx.Value)
	if tx.Type == evmtx.Blob {
		blobs := new(big.Int).SetUint64(tx.blobGas())
		c.Add(c, blobs.Mul(blobs, tx.BlobFeeCap))
	}
	return c
}

// tipAt returns a miner's share of a unit of gas; negative where the fee cap is below the base
// fee.
func (tx *transaction) tipAt(baseFee *big.Int) *big.Int {
	left := new(big.Int).Sub(tx.FeeCap, baseFee)
	if left.Cmp(tx.Tip) > 0 {
		left.Set(tx.Tip)
	}
	return left
}

// mined is a transaction in a block, and its receipt.
type mined struct {
	*transaction
	block    *block
	index    int
	ok       bool
	gasUsed  uint64
	total    uint64 // gas used in the block up to here
	price    *big.Int
	contract *evmtx.Address // the contract of a creation
}

type block struct {
	number   uint64
	hash     evmtx.Hash
	parent   evmtx.Hash
	time     time.Time
	baseFee  *big.Int
	gasLimit uint64
	gasUsed  uint64
	blobGas  uint64
	txs      []*mined
	writes   map[evmtx.Address]account // what accounts are after the block, where it changed them
}

// account is the state of an address. Values are never changed, but replaced.
type account struct {
	nonce   uint64
	balance *big.Int
	code    []byte
}

func (a account) funds() *big.Int {
	if a.balance == nil {
		return new(big.Int)
	}
	return a.balance
}

// delegated reports whether the account has the code of another (EIP-7702).
func (a account) delegated() bool {
	return len(a.code) == 23 && a.code[0] == 0xef && a.code[1] == 0x01
}

type version struct {
	block uint64
	account
}

// chain is blocks, and the state after each.
type chain struct {
	id       uint64
	blocks   []*block
	versions map[evmtx.Address][]version
	txs      map[evmtx.Hash]*mined
	next     *big.Int // the base fee of the next block
	limit    uint64   // to which the gas of a block grows; 0 where it stays
	salt     uint64   // so that no two blocks have one hash
}

func newChain(o *Options, salt uint64, now time.Time) *chain {
	c := &chain{
		id: o.ChainID, versions: map[evmtx.Address][]version{}, txs: map[evmtx.Hash]*mined{}, next: big.NewInt(1e9), salt: salt << 32,
	}
	if o.NoBaseFee {
		c.next = new(big.Int)
	}
	genesis := &block{time: now, baseFee: c.next, gasLimit: o.GasLimit, writes: map[evmtx.Address]account{}}
	for text, funds := range o.Accounts {
		address, err := evmtx.ParseAddress(text)
		if err != nil {
			panic(err) // Options were checked
		}
		genesis.writes[address] = account{balance: funds}
	}
	if o.Personality != Anvil {
		c.limit = 60_000_000
	}
	c.seal(genesis)
	c.append(genesis)
	if o.Personality == Anvil { // its first block has the base fee of the genesis block
		c.next = genesis.baseFee
	}
	return c
}

func (c *chain) head() *block { return c.blocks[len(c.blocks)-1] }

// seal gives a block a hash that no other block has.
func (c *chain) seal(b *block) {
	c.salt++
	b.hash = evmtx.Keccak([]byte("block"), binary.BigEndian.AppendUint64(nil, c.id), binary.BigEndian.AppendUint64(nil, c.salt),
		binary.BigEndian.AppendUint64(nil, uint64(b.time.UnixNano())), b.parent[:])
}

// append puts a sealed block on the head.
func (c *chain) append(b *block) {
	c.blocks = append(c.blocks, b)
	for address, a := range b.writes {
		c.versions[address] = append(c.versions[address], version{b.number, a})
	}
	for _, m := range b.txs {
		c.txs[m.hash] = m
	}
	c.next = b.nextBaseFee()
}

// nextBaseFee returns the base fee of the block after this one (EIP-1559).
func (b *block) nextBaseFee() *big.Int {
	target := b.gasLimit / 2
	if b.gasUsed == target || b.baseFee.Sign() == 0 { // it never rises from 0: a chain without one
		return b.baseFee
	}
	distance := new(big.Int).SetUint64(max(b.gasUsed, target) - min(b.gasUsed, target))
	delta := distance.Mul(distance, b.baseFee)
	delta.Div(delta, new(big.Int).SetUint64(target)).Div(delta, big.NewInt(8))
	if b.gasUsed < target {
		return new(big.Int).Sub(b.baseFee, delta)
	}
	if delta.Sign() == 0 {
		delta.SetInt64(1)
	}
	return new(big.Int).Add(b.baseFee, delta)
}

// at returns an account after a block.
func (c *chain) at(address evmtx.Address, number uint64) account {
	for _, v := range slices.Backward(c.versions[address]) {
		if v.block <= number {
			return v.account
		}
	}
	return account{}
}

func (c *chain) now(address evmtx.Address) account { return c.at(address, c.head().number) }

// put changes an account at the head, without a transaction.
func (c *chain) put(address evmtx.Address, a account) {
	head := c.head()
	head.writes[address] = a
	all := c.versions[address]
	if n := len(all); n > 0 && all[n-1].block == head.number {
		all = all[:n-1]
	}
	c.versions[address] = append(all, version{head.number, a})
}

// rewind takes the blocks above a number away, and returns them.
func (c *chain) rewind(number uint64) []*block {
	if number >= c.head().number {
		return nil
	}
	gone := slices.Clone(c.blocks[number+1:])
	c.blocks = slices.Clip(c.blocks[:number+1])
	for _, b := range gone {
		for address := range b.writes {
			all := c.versions[address]
			c.versions[address] = slices.DeleteFunc(slices.Clone(all), func(v version) bool { return v.block > number })
		}
		for _, m := range b.txs {
			delete(c.txs, m.hash)
		}
	}
	c.next = c.head().nextBaseFee()
	return gone
}

// restore makes these the blocks of the chain, and returns the blocks that are gone.
func (c *chain) restore(blocks []*block) []*block {
	same := 0
	for same < len(blocks) && same < len(c.blocks) && blocks[same] == c.blocks[same] {
		same++
	}
	gone := c.rewind(uint64(same - 1))
	for _, b := range blocks[same:] {
		c.append(b)
	}
	return gone
}

// open begins the next block.
func (c *chain) open(now time.Time) *block {
	head := c.head()
	b := &block{number: head.number + 1, parent: head.hash, time: now, baseFee: c.next, gasLimit: head.gasLimit, writes: map[evmtx.Address]account{}}
	if b.gasLimit < c.limit {
		b.gasLimit = min(c.limit, b.gasLimit+b.gasLimit/1024-1)
	}
	if b.time.Unix() <= head.time.Unix() { // blocks of one second
		b.time = head.time.Add(time.Second)
	}
	return b
}

// account returns the state of an address within a block that is being made.
func (c *chain) within(b *block, address evmtx.Address) account {
	if a, ok := b.writes[address]; ok {
		return a
	}
	return c.now(address)
}

// fits reports whether a transaction may be in the block now, by the rules of consensus.
func (c *chain) fits(b *block, tx *transaction) bool {
	a := c.within(b, tx.from)
	return (tx.ChainID == c.id || tx.ChainID == 0) && tx.Nonce == a.nonce && tx.tipAt(b.baseFee).Sign() >= 0 && a.funds().Cmp(tx.cost()) >= 0 &&
		tx.Gas >= tx.IntrinsicGas() && tx.Gas >= tx.FloorGas() && b.gasUsed+tx.Gas <= b.gasLimit &&
		b.blobGas+tx.blobGas() <= maxBlobs*evmtx.BlobSize
}

// execute puts a transaction that fits into the block.
func (c *chain) execute(b *block, tx *transaction) {
	tip := tx.tipAt(b.baseFee)
	m := &mined{transaction: tx, block: b, index: len(b.txs), price: tip.Add(tip, b.baseFee)}
	before := maps.Clone(b.writes)
	sender := c.within(b, tx.from)
	left, ok := c.call(b, m, tx.Gas-tx.IntrinsicGas())
	if !ok {
		b.writes = before
	}
	m.ok, m.gasUsed = ok, max(tx.Gas-left, tx.FloorGas())
	b.gasUsed += m.gasUsed
	m.total = b.gasUsed
	b.blobGas += tx.blobGas()
	// The sender has the balance of the call, and pays for its gas.
	paid := new(big.Int).Mul(m.price, new(big.Int).SetUint64(m.gasUsed))
	paid.Add(paid, new(big.Int).SetUint64(blobPrice*tx.blobGas()))
	after := c.within(b, tx.from)
	b.writes[tx.from] = account{nonce: sender.nonce + 1, balance: new(big.Int).Sub(after.funds(), paid), code: after.code}
	b.txs = append(b.txs, m)
}

// call moves the value and runs the code.
func (c *chain) call(b *block, m *mined, gas uint64) (left uint64, ok bool) {
	sender := c.within(b, m.from)
	b.writes[m.from] = account{nonce: sender.nonce, balance: new(big.Int).Sub(sender.funds(), m.Value), code: sender.code}
	to := evmtx.Address{}
	if m.To == nil {
		to = created(m.from, m.Nonce)
		m.contract = &to
	} else {
		to = *m.To
	}
	callee := c.within(b, to)
	callee.balance = new(big.Int).Add(callee.funds(), m.Value)
	b.writes[to] = callee
	if m.To != nil {
		if callee.delegated() {
			return gas, true // the other's code is not modelled
		}
		_, left, err := run(callee.code, gas)
		return left, err == nil
	}
	code, left, err := run(m.Data, gas)
	deposit := codeByte * uint64(len(code))
	if err != nil || left < deposit {
		return left, false
	}
	callee.code, callee.nonce = slices.Clone(code), 1
	b.writes[to] = callee
	return left - deposit, true
}

// codeByte is the gas for each byte of a new contract.
const codeByte = 200

// created returns the address of a contract.
func created(from evmtx.Address, nonce uint64) evmtx.Address {
	var number []byte
	for n := nonce; n > 0; n >>= 8 {
		number = append([]byte{byte(n)}, number...)
	}
	if nonce == 0 || nonce >= 0x80 {
		number = append([]byte{0x80 + byte(len(number))}, number...)
	}
	list := append(append([]byte{0xc0 + byte(21+len(number)), 0x94}, from[:]...), number...)
	h := evmtx.Keccak(list)
	return evmtx.Address(h[12:])
}
