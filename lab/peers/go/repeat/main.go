// Package main codes a stripe so many times, for tools that count what that takes:
//
//	repeat K+M CHUNK encode|decode TIMES
package main

import (
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/klauspost/reedsolomon"
)

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	if len(os.Args) != 5 {
		log.Fatal("usage: repeat K+M CHUNK encode|decode TIMES")
	}
	var k, m int
	if _, err := fmt.Sscanf(os.Args[1], "%d+%d", &k, &m); err != nil {
		log.Fatal(err)
	}
	chunk, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	times, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	coder, err := reedsolomon.New(k, m, reedsolomon.WithMaxGoroutines(1))
	if err != nil {
		log.Fatal(err)
	}
	shards := make([][]byte, k+m)
	for j := range shards {
		shards[j] = make([]byte, chunk)
		for i := range shards[j] {
			shards[j][i] = byte(i*7 + i/256*11 + j*13)
		}
	}
	if os.Args[3] == "encode" {
		for range times {
			if err := coder.Encode(shards); err != nil {
				log.Fatal(err)
			}
		}
		fmt.Println(k * chunk)
		return
	}
	if err := coder.Encode(shards); err != nil {
		log.Fatal(err)
	}
	for range times {
		shards[0] = shards[0][:0] // missing, with room for it
		if err := coder.ReconstructData(shards); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(chunk)
}
