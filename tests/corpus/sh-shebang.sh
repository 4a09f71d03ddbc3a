#!/bin/sh
echo "plain sh"
