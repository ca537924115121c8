// Package main drives github.com/klauspost/reedsolomon behind the interface of peer.h.
package main

/*
#include <stdint.h>
#include <stdlib.h>
*/
import "C"

import (
	"os"
	"runtime"
	"runtime/cgo"
	"slices"
	"unsafe"

	"github.com/klauspost/reedsolomon"
)

// As in peer.h, whose declarations cgo cannot repeat: it knows no const.
const (
	abi         = 2
	ok          = 0
	unsupported = 1
	failed      = 2
)

// One processor for all goroutines: peers are compared on one core.
func init() { runtime.GOMAXPROCS(1) }

var (
	engines = C.CString("klauspost klauspost-2")
	version = C.CString("klauspost/reedsolomon 1.14.0, " + runtime.Version())
)

type engine struct {
	k, m     int
	encoder  reedsolomon.Encoder
	shards   [][]byte
	required []bool
}

//export kp_abi
func kp_abi() C.uint32_t { return abi }

//export kp_engines
func kp_engines() *C.char { return engines }

//export kp_version
func kp_version() *C.char { return version }

func complain(text string, out *C.char, size C.size_t) {
	if size == 0 {
		return
	}
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(out)), int(size))
	buffer[copy(buffer[:size-1], text)] = 0
}

//export kp_open
func kp_open(name, code *C.char, k, m, d C.uint32_t, chunk C.uint64_t, message *C.char,
	size C.size_t) unsafe.Pointer {
	_ = d
	if C.GoString(code) != "rs" {
		complain("klauspost: only rs", message, size)
		return nil
	}
	// With more than 10 data chunks the library takes a faster path when it may use two
	// goroutines, even on one processor.
	goroutines := 1
	if C.GoString(name) == "klauspost-2" {
		if k <= 10 {
			complain("klauspost-2: a second goroutine helps for k > 10 only", message, size)
			return nil
		}
		goroutines = 2
	}
	options := []reedsolomon.Option{reedsolomon.WithMaxGoroutines(goroutines)}
	if os.Getenv("KILN_BENCH_ISA") == "avx2" {
		options = append(options, reedsolomon.WithAVX512(false), reedsolomon.WithGFNI(false),
			reedsolomon.WithAVXGFNI(false))
	}
	encoder, err := reedsolomon.New(int(k), int(m), options...)
	if err != nil {
		complain(err.Error(), message, size)
		return nil
	}
	total := int(k + m)
	it := &engine{int(k), int(m), encoder, make([][]byte, total), make([]bool, total)}
	handle := (*C.uintptr_t)(C.malloc(C.size_t(unsafe.Sizeof(C.uintptr_t(0)))))
	*handle = C.uintptr_t(cgo.NewHandle(it))
	return unsafe.Pointer(handle)
}

func of(handle unsafe.Pointer) (*engine, cgo.Handle) {
	inner := cgo.Handle(*(*C.uintptr_t)(handle))
	return inner.Value().(*engine), inner
}

// pass does one stripe after the other on a goroutine of its own. The one that C called is bound
// to its thread: from there every switch to a goroutine of the library would be a switch of
// threads, which a Go program does not pay.
func pass(stripes, repeats C.uint32_t, one func(stripe int) error) C.int {
	done := make(chan C.int)
	go func() {
		for range repeats {
			for stripe := range int(stripes) {
				if one(stripe) != nil {
					done <- failed
					return
				}
			}
		}
		done <- ok
	}()
	return <-done
}

//export kp_encode
func kp_encode(handle unsafe.Pointer, data **C.uint8_t, parity **C.uint8_t, chunk C.uint64_t,
	stripes, repeats C.uint32_t) C.int {
	it, _ := of(handle)
	in := unsafe.Slice((**byte)(unsafe.Pointer(data)), it.k*int(stripes))
	out := unsafe.Slice((**byte)(unsafe.Pointer(parity)), it.m*int(stripes))
	return pass(stripes, repeats, func(stripe int) error {
		for j := range it.k {
			it.shards[j] = unsafe.Slice(in[stripe*it.k+j], int(chunk))
		}
		for r := range it.m {
			it.shards[it.k+r] = unsafe.Slice(out[stripe*it.m+r], int(chunk))
		}
		return it.encoder.Encode(it.shards)
	})
}

//export kp_decode
func kp_decode(handle unsafe.Pointer, chunks **C.uint8_t, lost *C.uint32_t, nlost C.uint32_t,
	chunk C.uint64_t, stripes, repeats C.uint32_t) C.int {
	it, _ := of(handle)
	n := it.k + it.m
	gone := unsafe.Slice(lost, int(nlost))
	for i := range n {
		it.required[i] = slices.Contains(gone, C.uint32_t(i))
	}
	all := unsafe.Slice((**byte)(unsafe.Pointer(chunks)), n*int(stripes))
	return pass(stripes, repeats, func(stripe int) error {
		for i := range n {
			it.shards[i] = unsafe.Slice(all[stripe*n+i], int(chunk))
			if it.required[i] {
				it.shards[i] = it.shards[i][:0]
			}
		}
		return it.encoder.ReconstructSome(it.shards, it.required)
	})
}

//export kp_reads
func kp_reads(handle unsafe.Pointer, lost, helper C.uint32_t, out *C.uint32_t,
	limit C.uint64_t) C.int64_t {
	return -1
}

//export kp_repair
func kp_repair(handle unsafe.Pointer, lost C.uint32_t, parts **C.uint8_t, out **C.uint8_t,
	chunk C.uint64_t, stripes, repeats C.uint32_t) C.int {
	return unsupported
}

//export kp_close
func kp_close(handle unsafe.Pointer) {
	_, inner := of(handle)
	inner.Delete()
	C.free(handle)
}

func main() {}
