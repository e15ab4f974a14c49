package evmtest

import (
	"errors"
	"math/big"
)

// The errors that end a call. A revert gives the rest of the gas back; the others do not.
var (
	errRevert        = errors.New("execution reverted")
	errOutOfGas      = errors.New("out of gas")
	errInvalidOpcode = errors.New("invalid opcode")
)

// runCode executes code. It knows only the few operations of a contract that stops, returns,
// reverts or runs out of gas. Any other operation is invalid.
func runCode(code []byte, gas uint64) (out []byte, left uint64, err error) {
	var stack []*big.Int
	var memory []byte
	pop := func() uint64 {
		if len(stack) == 0 {
			err = errInvalidOpcode
			return 0
		}
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if top.BitLen() > 24 { // memory of 16 MiB costs more gas than a block has
			err = errOutOfGas
			return 0
		}
		return top.Uint64()
	}
	spend := func(n uint64) {
		if gas < n {
			gas, err = 0, errOutOfGas
			return
		}
		gas -= n
	}
	words := func(size int) uint64 { w := uint64(size+31) / 32; return 3*w + w*w/512 }
	grow := func(size uint64) {
		if int(size) > len(memory) {
			bigger := make([]byte, (size+31)/32*32)
			spend(words(len(bigger)) - words(len(memory)))
			copy(bigger, memory)
			memory = bigger
		}
	}
	for at := 0; err == nil && at < len(code); at++ {
		switch op := code[at]; {
		case op == 0x00: // STOP
			return nil, gas, nil
		case op == 0x52: // MSTORE
			spend(3)
			offset := pop()
			if len(stack) == 0 {
				return nil, 0, errInvalidOpcode
			}
			value := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if err == nil {
				grow(offset + 32)
				value.FillBytes(memory[offset : offset+32])
			}
		case op == 0x56: // JUMP
			spend(8)
			to := pop()
			if err == nil && (to >= uint64(len(code)) || code[to] != 0x5b) {
				err = errInvalidOpcode
			}
			at = int(to) - 1
		case op == 0x5b: // JUMPDEST
			spend(1)
		case op >= 0x5f && op <= 0x7f: // PUSH0 to PUSH32
			size := int(op - 0x5f)
			spend(uint64(2 + min(size, 1)))
			data := make([]byte, size)
			copy(data, code[min(at+1, len(code)):])
			stack = append(stack, new(big.Int).SetBytes(data))
			if at += size; len(stack) > 1024 {
				err = errInvalidOpcode
			}
		case op == 0xf3 || op == 0xfd: // RETURN, REVERT
			offset, size := pop(), pop()
			if err == nil && size > 0 {
				grow(offset + size)
			}
			if err != nil {
				return nil, 0, err
			}
			if size > 0 {
				out = memory[offset : offset+size]
			}
			if op == 0xfd {
				return out, gas, errRevert
			}
			return out, gas, nil
		default:
			err = errInvalidOpcode
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return nil, gas, nil
}
