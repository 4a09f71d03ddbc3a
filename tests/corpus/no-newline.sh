#!/usr/bin/env bash
printf hi; echo " there"