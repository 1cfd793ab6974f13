import sys

from tests.crash.run import main

sys.exit(main())
